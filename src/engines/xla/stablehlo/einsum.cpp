// torch.einsum: operand after operand joined by a product over the axes that nobody needs any more.
#include <algorithm>
#include <string>

#include "engines/xla/stablehlo/call.h"

namespace kpt::xla {
namespace {

struct Labelled {
  Value value;
  std::string labels;  // one letter per axis
};

struct Equation {
  std::vector<std::string> inputs;
  std::string output;
};

// Letters, commas and "->"; without an arrow the letters that stand once, in alphabetical order.
Equation parse(std::string_view text) {
  Equation equation;
  std::string left;
  bool has_arrow = false;
  for (std::size_t index = 0; index < text.size(); ++index) {
    const char sign = text[index];
    if (sign == ' ') continue;
    if (sign == '-' && text.substr(index, 2) == "->" && !has_arrow) {
      has_arrow = true;
      ++index;
    } else if ((sign >= 'a' && sign <= 'z') || (sign >= 'A' && sign <= 'Z') || (sign == ',' && !has_arrow)) {
      (has_arrow ? equation.output : left) += sign;
    } else {
      refuse("its equation has more than letters, commas and an arrow");
    }
  }
  std::size_t start = 0;
  for (std::size_t end = left.find(','); end != std::string::npos; end = left.find(',', start)) {
    equation.inputs.push_back(left.substr(start, end - start));
    start = end + 1;
  }
  equation.inputs.push_back(left.substr(start));
  if (has_arrow) return equation;
  for (const char letter : left) {
    if (letter != ',' && std::count(left.begin(), left.end(), letter) == 1) equation.output += letter;
  }
  std::sort(equation.output.begin(), equation.output.end());
  return equation;
}

bool contains(std::string_view text, char letter) { return text.find(letter) != std::string_view::npos; }

// Without the axes that stand nowhere else.
Labelled sum_out(Builder& b, Labelled operand, std::string_view needed) {
  Extents axes;
  std::string left;
  for (std::size_t axis = 0; axis < operand.labels.size(); ++axis) {
    if (contains(needed, operand.labels[axis])) {
      left += operand.labels[axis];
    } else {
      axes.push_back(static_cast<std::int64_t>(axis));
    }
  }
  if (axes.empty()) return operand;
  const Value wide = b.convert(operand.value, math_dtype(operand.value.dtype));
  const Value sum = b.reduce("add", wide, b.scalar(std::int64_t{0}, wide.dtype), axes);
  return {b.convert(sum, operand.value.dtype), left};
}

Labelled join(Builder& b, const Labelled& first, const Labelled& second, std::string_view needed) {
  DotDims dims;
  std::string batch;
  std::string left;
  std::string right;
  for (std::size_t axis = 0; axis < first.labels.size(); ++axis) {
    const char letter = first.labels[axis];
    const std::size_t other = second.labels.find(letter);
    if (other == std::string::npos) {
      left += letter;
      continue;
    }
    if (first.value.dims[axis] != second.value.dims[other]) refuse("its operands do not fit each other");
    const bool kept = contains(needed, letter);
    (kept ? dims.lhs_batch : dims.lhs_contracting).push_back(static_cast<std::int64_t>(axis));
    (kept ? dims.rhs_batch : dims.rhs_contracting).push_back(static_cast<std::int64_t>(other));
    if (kept) batch += letter;
  }
  for (const char letter : second.labels) {
    if (!contains(first.labels, letter)) right += letter;
  }
  return {b.dot(first.value, second.value, dims, math_dtype(first.value.dtype)), batch + left + right};
}

void lower_einsum(Call& call) {
  Builder& b = call.builder();
  const Equation equation = parse(call.text("equation", ""));
  const std::vector<Value> operands = call.tensors("tensors");
  if (operands.size() != equation.inputs.size() || operands.empty()) refuse("its equation has other operands");
  std::vector<Labelled> labelled;
  for (std::size_t index = 0; index < operands.size(); ++index) {
    std::string sorted = equation.inputs[index];
    std::sort(sorted.begin(), sorted.end());
    if (sorted.size() != operands[index].rank()) refuse("its equation has other axes than its operands");
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) refuse("it takes a diagonal");
    if (operands[index].dtype != operands[0].dtype) refuse("its operands have different types");
    labelled.push_back({operands[index], equation.inputs[index]});
  }
  Labelled result = labelled[0];
  for (std::size_t index = 0; index < labelled.size(); ++index) {
    std::string needed = equation.output;
    for (std::size_t later = index + 1; later < labelled.size(); ++later) needed += labelled[later].labels;
    if (index > 0) {
      const Value same = b.convert(result.value, labelled[index].value.dtype);
      const Labelled other = sum_out(b, labelled[index], needed + result.labels);
      result = join(b, {same, result.labels}, other, needed);
    }
    result = sum_out(b, result, needed);
  }
  Extents permutation;
  for (const char letter : equation.output) {
    const std::size_t axis = result.labels.find(letter);
    if (axis == std::string::npos) refuse("its result has an axis that no operand has");
    permutation.push_back(static_cast<std::int64_t>(axis));
  }
  call.set(b.transpose(result.value, permutation));
}

constexpr Rule kEinsumRules[] = {{"aten.einsum.default", lower_einsum}};

}  // namespace

std::span<const Rule> einsum_rules() { return kEinsumRules; }

}  // namespace kpt::xla
