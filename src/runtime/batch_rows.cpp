#include "runtime/batch_rows.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "passes/memory_facts.h"
#include "passes/node_arguments.h"
#include "runtime/row_targets.h"

namespace kpt {
namespace {

// How an operator treats rows.
enum class Rule : std::uint8_t {
  kPointwise,  // tensors are broadcast together
  kAxis,       // works along the axes that `dim` names
  kView,       // the same elements in the same order, or each one repeated behind the first axis
  kPermute,    // `dims` is the new order of axes
  kSwap,       // `dim0` and `dim1` change places
  kProduct,    // the first tensor's rows with weights
  kBatched,    // products of matrices, a batch of them
  kNorm,       // over the last axes
  kImage,      // [N, C, …]: each image by itself
  kLookup,     // rows of a table
  kFilled,     // a constant of some size
  kExtent,     // an extent as a number, and what is counted from it
  kPad,        // further elements along the last axes
  kDropout,    // nothing, unless it trains
};

struct RuleRow {
  std::string_view target;  // without the overload, or with it where overloads differ
  Rule rule;
};

constexpr RuleRow kRules[] = {
    {"_softmax", Rule::kAxis},
    {"_log_softmax", Rule::kAxis},
    {"amax", Rule::kAxis},
    {"amin", Rule::kAxis},
    {"any.dim", Rule::kAxis},
    {"argmax", Rule::kAxis},
    {"argmin", Rule::kAxis},
    {"cat", Rule::kAxis},
    {"chunk", Rule::kAxis},
    {"cumsum", Rule::kAxis},
    {"gather", Rule::kAxis},
    {"glu", Rule::kAxis},
    {"linalg_vector_norm", Rule::kAxis},
    {"log_softmax.int", Rule::kAxis},
    {"max.dim", Rule::kAxis},
    {"mean.dim", Rule::kAxis},
    {"narrow", Rule::kAxis},
    {"select.int", Rule::kAxis},
    {"slice.Tensor", Rule::kAxis},
    {"softmax.int", Rule::kAxis},
    {"split.Tensor", Rule::kAxis},
    {"split_with_sizes", Rule::kAxis},
    {"squeeze.dim", Rule::kAxis},
    {"squeeze.dims", Rule::kAxis},
    {"sum.dim_IntList", Rule::kAxis},
    {"topk", Rule::kAxis},
    {"unbind.int", Rule::kAxis},
    {"unsqueeze", Rule::kAxis},
    {"_unsafe_view", Rule::kView},
    {"expand", Rule::kView},
    {"flatten.using_ints", Rule::kView},
    {"reshape", Rule::kView},
    {"unflatten.int", Rule::kView},
    {"view.default", Rule::kView},
    {"permute", Rule::kPermute},
    {"transpose.int", Rule::kSwap},
    {"addmm", Rule::kProduct},
    {"linear", Rule::kProduct},
    {"mm", Rule::kProduct},
    {"kpt.linear", Rule::kProduct},
    {"kpt.linear_fp8", Rule::kProduct},
    {"kpt.linear_fp8_e5m2", Rule::kProduct},
    {"kpt.linear_int4", Rule::kProduct},
    {"kpt.linear_int8", Rule::kProduct},
    {"kpt.linear_weight_int8", Rule::kProduct},
    {"bmm", Rule::kBatched},
    {"matmul", Rule::kBatched},
    {"scaled_dot_product_attention", Rule::kBatched},
    {"kpt.attention", Rule::kBatched},
    {"kpt.rotary", Rule::kBatched},
    {"layer_norm", Rule::kNorm},
    {"native_layer_norm", Rule::kNorm},
    {"rms_norm", Rule::kNorm},
    {"kpt.add_norm", Rule::kNorm},
    {"kpt.glu", Rule::kNorm},
    {"_native_batch_norm_legit_no_training", Rule::kImage},
    {"adaptive_avg_pool2d", Rule::kImage},
    {"avg_pool2d", Rule::kImage},
    {"batch_norm", Rule::kImage},
    {"conv1d", Rule::kImage},
    {"conv2d.default", Rule::kImage},
    {"convolution", Rule::kImage},
    {"max_pool2d", Rule::kImage},
    {"max_pool2d_with_indices", Rule::kImage},
    {"kpt.conv2d", Rule::kImage},
    {"kpt.conv2d_int8", Rule::kImage},
    {"constant_pad_nd", Rule::kPad},
    {"pad", Rule::kPad},
    {"dropout", Rule::kDropout},
    {"dropout_", Rule::kDropout},
    {"embedding", Rule::kLookup},
    {"full", Rule::kFilled},
    {"ones", Rule::kFilled},
    {"zeros", Rule::kFilled},
    {"sym_size.int", Rule::kExtent},
    {"_operator.add", Rule::kExtent},
    {"_operator.floordiv", Rule::kExtent},
    {"_operator.mod", Rule::kExtent},
    {"_operator.mul", Rule::kExtent},
    {"_operator.sub", Rule::kExtent},
};

std::optional<Rule> find_rule(std::string_view target) {
  if (is_pointwise(target)) return Rule::kPointwise;
  if (target.starts_with("aten.")) target.remove_prefix(5);
  const std::string_view base = target.substr(0, target.rfind('.'));
  const auto is = [&](std::string_view name) { return name == target || name == base; };
  const auto* found = std::ranges::find_if(kRules, [&](const RuleRow& row) { return is(row.target); });
  return found == std::end(kRules) ? std::nullopt : std::optional(found->rule);
}

std::optional<std::vector<std::int64_t>> read_axes(const ir::Argument* argument) {
  if (argument == nullptr) return std::nullopt;
  if (const auto* axis = std::get_if<std::int64_t>(&argument->value)) return std::vector{*axis};
  std::vector<std::int64_t> axes;
  if (argument->list() == nullptr) return std::nullopt;
  for (const ir::Argument& item : argument->list()->items) {
    const auto* axis = std::get_if<std::int64_t>(&item.value);
    if (axis == nullptr) return std::nullopt;
    axes.push_back(*axis);
  }
  return axes.empty() ? std::nullopt : std::optional(std::move(axes));
}

// Looks at the nodes in turn and remembers which values hold rows of the batch.
class RowCheck {
 public:
  RowCheck(const ir::Graph& graph, std::string symbol)
      : graph_(graph),
        symbol_(std::move(symbol)),
        rows_(graph.values.size(), false),
        numbers_(graph.values.size(), false),
        shared_(graph.values.size(), false) {}

  Status check() {
    for (const ir::GraphInput& input : graph_.inputs) {
      if (input.kind == ir::InputKind::kUser) rows_[ir::index_of(input.value)] = true;
      if (input.kind == ir::InputKind::kUser) shared_[ir::index_of(input.value)] = true;
    }
    for (const ir::Node& node : graph_.nodes) {
      if (!check_node(node)) {
        return {StatusCode::kUnsupported, fmt::format("node '{}' ({}) is not known to keep the rows of {} apart",
                                                      node.name, node.target, symbol_)};
      }
    }
    return {};
  }

  // Whether each row of a value comes from the same row of the inputs.
  bool holds_rows(ir::ValueId id) const { return is_row(id) && has_rows(graph_.at(id)); }

  // First extent a multiple of the symbol, which is in no other.
  bool has_rows(const ir::Value& value) const {
    if (value.kind != ir::ValueKind::kTensor || value.tensor.dims.empty()) return false;
    const std::vector<ir::Expr>& dims = value.tensor.dims;
    return is_multiple(dims[0], symbol_) &&
           std::none_of(dims.begin() + 1, dims.end(), [&](const ir::Expr& dim) { return mentions(dim, symbol_); });
  }

 private:
  bool is_row(ir::ValueId id) const { return rows_[ir::index_of(id)]; }
  bool is_tensor(ir::ValueId id) const { return graph_.at(id).kind == ir::ValueKind::kTensor; }
  const std::vector<ir::Expr>& dims(ir::ValueId id) const { return graph_.at(id).tensor.dims; }

  static std::vector<ir::ValueId> values_of(const ir::Node& node) {
    std::vector<ir::ValueId> values;
    for (const ir::NamedArgument& argument : node.arguments) {
      ir::for_each_value(argument.value, [&](ir::ValueId id) { values.push_back(id); });
    }
    return values;
  }
  static std::vector<ir::ValueId> results_of(const ir::Node& node) {
    std::vector<ir::ValueId> results;
    for (const ir::Output& output : node.outputs) {
      for (const ir::ValueId id : output.values) {
        if (id != ir::kNoValue) results.push_back(id);
      }
    }
    return results;
  }

  bool mentions_symbol(const ir::Value& value) const {
    if (value.kind != ir::ValueKind::kTensor) return mentions(value.expression, symbol_);
    return std::ranges::any_of(value.tensor.dims, [&](const ir::Expr& dim) { return mentions(dim, symbol_); });
  }

  bool check_node(const ir::Node& node) {
    const std::vector<ir::ValueId> arguments = values_of(node);
    const std::vector<ir::ValueId> results = results_of(node);
    // Each run draws anew, and more than one of them more often.
    if (draws_at_random(node) || writes_input(node, arguments, results)) return false;
    const bool takes_rows = std::ranges::any_of(arguments, [&](ir::ValueId id) { return is_row(id) || is_number(id); });
    if (!takes_rows && std::ranges::none_of(results, [&](ir::ValueId id) { return mentions_symbol(graph_.at(id)); })) {
      return true;
    }
    if (results.empty()) return false;
    if (counts_rows(node, results.front())) {
      numbers_[ir::index_of(results.front())] = true;
      return true;
    }
    if (std::ranges::any_of(arguments, [&](ir::ValueId id) { return is_number(id); })) {
      return check_number_use(node, arguments, results.front());
    }
    const auto rule = find_rule(node.target);
    if (!rule) return false;
    if (*rule == Rule::kExtent) return note_numbers(results);
    for (const ir::ValueId id : results) {
      if (is_empty(graph_.at(id))) continue;
      rows_[ir::index_of(id)] = true;
      if (!has_rows(graph_.at(id))) return false;
    }
    return follows(*rule, node, arguments, results.front());
  }

  // Results may lie in the memory of arguments unless they are known to be new. A run must not write what the caller
  // gave: of a padded batch he would not see it, and parts after a failed run would begin with what it wrote.
  bool writes_input(const ir::Node& node, const std::vector<ir::ValueId>& arguments,
                    const std::vector<ir::ValueId>& results) {
    const bool shares = std::ranges::any_of(arguments, [&](ir::ValueId id) { return shared_[ir::index_of(id)]; });
    const auto rule = find_rule(node.target);
    const bool fresh = rule && (*rule == Rule::kProduct || *rule == Rule::kBatched || *rule == Rule::kNorm ||
                                *rule == Rule::kImage || *rule == Rule::kLookup || *rule == Rule::kFilled);
    for (const ir::ValueId id : results) shared_[ir::index_of(id)] = shares && !fresh;
    return shares && is_written(node.target);
  }

  bool is_number(ir::ValueId id) const { return numbers_[ir::index_of(id)]; }

  // Statistics that a norm gives only in training.
  static bool is_empty(const ir::Value& value) {
    return value.kind == ir::ValueKind::kTensor && value.tensor.dims.size() == 1 && value.tensor.dims[0] == ir::Expr(0);
  }

  // 0, 1, 2, … once for each row.
  bool counts_rows(const ir::Node& node, ir::ValueId result) const {
    if (!node.target.starts_with("aten.arange.") || dims(result).size() != 1) return false;
    const auto is = [&](std::string_view name, std::int64_t value) {
      const ir::Argument* argument = find_argument(node, name);
      return argument == nullptr || argument->value == ir::Argument{value}.value;
    };
    return dims(result)[0] == ir::Expr::symbol(symbol_) && is("start", 0) && is("step", 1);
  }

  // The numbers of rows are no rows: a part counts from 0 again. They may choose their own rows, nothing else.
  bool check_number_use(const ir::Node& node, const std::vector<ir::ValueId>& arguments, ir::ValueId result) {
    if (node.target == "aten.unsqueeze.default") {
      if (!avoids_first(node, arguments, result)) return false;
      numbers_[ir::index_of(result)] = true;
      return true;
    }
    if (node.target != "aten.index.Tensor") return false;
    const ir::Argument* self = find_argument(node, "self");
    const ir::Argument* indices = find_argument(node, "indices");
    if (self == nullptr || self->value_id() == nullptr || indices == nullptr || indices->list() == nullptr)
      return false;
    const ir::ValueId from = *self->value_id();
    const auto& items = indices->list()->items;
    if (!is_row(from) || !has_rows(graph_.at(from)) || !dims(from)[0].is_symbol() || items.empty()) return false;
    for (std::size_t axis = 0; axis < items.size(); ++axis) {
      const ir::ValueId* id = items[axis].value_id();
      if (id == nullptr) return false;
      const DType dtype = graph_.at(*id).tensor.dtype;
      if (dtype == DType::kBool || dtype == DType::kUInt8) return false;  // a mask
      const bool aligned = dims(*id).size() == dims(items[0].value_id() != nullptr ? *items[0].value_id() : *id).size();
      if (axis == 0 ? !is_number(*id) : is_number(*id) || is_row(*id) || !aligned) return false;
    }
    rows_[ir::index_of(result)] = true;
    return has_rows(graph_.at(result));
  }

  bool note_numbers(const std::vector<ir::ValueId>& results) {
    for (const ir::ValueId id : results) {
      if (graph_.at(id).kind != ir::ValueKind::kInt) return false;
      rows_[ir::index_of(id)] = mentions(graph_.at(id).expression, symbol_);
    }
    return true;
  }

  bool follows(Rule rule, const ir::Node& node, const std::vector<ir::ValueId>& arguments, ir::ValueId result) const {
    // A size that depends on the batch may only make sizes.
    const bool sizes = std::ranges::any_of(arguments, [&](ir::ValueId id) { return is_row(id) && !is_tensor(id); });
    if (sizes && rule != Rule::kView && rule != Rule::kFilled) return false;
    switch (rule) {
      case Rule::kPointwise: return all_aligned(arguments, result);
      case Rule::kAxis:
        return all_rows(arguments) && avoids_first(node, arguments, result) &&
               std::ranges::all_of(arguments, [&](ir::ValueId id) { return dims(id)[0] == dims(result)[0]; });
      case Rule::kView: return true;
      case Rule::kFilled: return only_sizes(node);
      case Rule::kPermute: {
        const auto order = read_axes(find_argument(node, "dims"));
        return order && order->front() == 0;
      }
      case Rule::kSwap: return keeps(node, "dim0", result) && keeps(node, "dim1", result);
      case Rule::kProduct: return only_rows_of(node, {"input", "self", "mat1", "residual"}, result);
      case Rule::kBatched:
        return all_aligned(arguments, result) && (dims(result).size() >= 3 || is_plain(arguments)) && !drops(node);
      case Rule::kNorm: return norms_behind_first(node, arguments, result);
      case Rule::kImage:
        return dims(result).size() >= 3 && only_rows_of(node, {"input", "self", "residual"}, result) && !trains(node);
      case Rule::kLookup: return only_rows_of(node, {"indices"}, result);
      case Rule::kExtent: return true;
      case Rule::kDropout: return find_argument(node, "train") != nullptr && !trains(node);
      case Rule::kPad: {
        const ir::Argument* pad = find_argument(node, "pad");
        return all_rows(arguments) && pad != nullptr && pad->list() != nullptr &&
               pad->list()->items.size() < 2 * dims(result).size();
      }
    }
    return false;
  }

  // Rows stand at the first axis of all; what else is broadcast has no first axis of its own.
  bool all_aligned(const std::vector<ir::ValueId>& arguments, ir::ValueId result) const {
    return std::ranges::all_of(arguments, [&](ir::ValueId id) {
      if (!is_tensor(id)) return true;
      const std::vector<ir::Expr>& own = dims(id);
      const std::vector<ir::Expr>& all = dims(result);
      if (is_row(id)) return own.size() == all.size() && own[0] == all[0];
      return own.size() < all.size() || own[0] == ir::Expr(1);
    });
  }

  bool all_rows(const std::vector<ir::ValueId>& arguments) const {
    return std::ranges::all_of(arguments, [&](ir::ValueId id) { return is_tensor(id) && is_row(id); });
  }

  // No tensor, and what depends on the batch is an extent, not a number to fill with.
  bool only_sizes(const ir::Node& node) const {
    return std::ranges::all_of(node.arguments, [&](const ir::NamedArgument& argument) {
      bool fine = true;
      ir::for_each_value(argument.value, [&](ir::ValueId id) {
        fine = fine && !is_tensor(id) && (argument.name == "size" || !is_row(id));
      });
      return fine;
    });
  }

  // A product of two matrices: rows with one that has none.
  bool is_plain(const std::vector<ir::ValueId>& arguments) const {
    return arguments.size() == 2 && is_row(arguments[0]) && !is_row(arguments[1]);
  }

  // Whether something is left out at random.
  static bool drops(const ir::Node& node) {
    const ir::Argument* share = find_argument(node, "dropout_p");
    return share != nullptr && !(share->value == ir::Argument{0.0}.value);
  }

  // A norm that takes its statistics from the batch, or dropout that drops.
  static bool trains(const ir::Node& node) {
    const ir::Argument* training = find_argument(node, "training");
    if (training == nullptr) training = find_argument(node, "train");
    return training != nullptr && !(training->value == ir::Argument{false}.value);
  }

  bool avoids_first(const ir::Node& node, const std::vector<ir::ValueId>& arguments, ir::ValueId result) const {
    const auto axes = read_axes(find_argument(node, "dim"));
    // unsqueeze counts the axes of its result.
    const bool of_result = node.target == "aten.unsqueeze.default";
    const auto rank = static_cast<std::int64_t>(dims(of_result ? result : arguments[0]).size());
    return axes && std::ranges::none_of(*axes, [&](std::int64_t axis) { return axis == 0 || axis == -rank; });
  }

  bool keeps(const ir::Node& node, std::string_view name, ir::ValueId result) const {
    const auto axes = read_axes(find_argument(node, name));
    return axes && axes->front() != 0 && axes->front() != -static_cast<std::int64_t>(dims(result).size());
  }

  // Of the tensors only the named ones hold rows, each beginning as the result does.
  bool only_rows_of(const ir::Node& node, std::initializer_list<std::string_view> names, ir::ValueId result) const {
    return std::ranges::all_of(node.arguments, [&](const ir::NamedArgument& argument) {
      const ir::ValueId* id = argument.value.value_id();
      if (id == nullptr) {
        bool none = true;
        ir::for_each_value(argument.value, [&](ir::ValueId item) { none = none && !is_row(item); });
        return none;
      }
      if (!is_row(*id)) return true;
      return std::ranges::find(names, argument.name) != names.end() && dims(*id)[0] == dims(result)[0];
    });
  }

  bool norms_behind_first(const ir::Node& node, const std::vector<ir::ValueId>& arguments, ir::ValueId result) const {
    std::size_t axes = 1;
    if (const ir::Argument* shape = find_argument(node, "normalized_shape"); shape != nullptr) {
      if (shape->list() == nullptr) return false;
      axes = shape->list()->items.size();
    }
    return !arguments.empty() && is_row(arguments[0]) && dims(arguments[0]).size() > axes &&
           only_rows_of(node, {"input", "residual"}, result);
  }

  const ir::Graph& graph_;
  std::string symbol_;
  std::vector<bool> rows_;     // by value: depends on the rows, or is a number that does
  std::vector<bool> numbers_;  // by value: the number of each row
  std::vector<bool> shared_;   // by value: may lie in the memory of an input
};

Status refuse(std::string reason) { return {StatusCode::kUnsupported, std::move(reason)}; }

}  // namespace

Result<BatchRows> find_batch_rows(const ir::Graph& graph) {
  BatchRows found;
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.kind != ir::InputKind::kUser) continue;
    const ir::Value& value = graph.at(input.value);
    const bool has_symbol =
        value.kind == ir::ValueKind::kTensor && !value.tensor.dims.empty() && value.tensor.dims[0].is_symbol();
    if (!has_symbol) return refuse(fmt::format("input '{}' has no first extent that may vary", input.name));
    const std::string symbol(value.tensor.dims[0].name());
    if (!found.symbol.empty() && symbol != found.symbol) {
      return refuse(fmt::format("input '{}' has {} rows and others have {}", input.name, symbol, found.symbol));
    }
    found.symbol = symbol;
  }
  if (found.symbol.empty()) return refuse("the model takes no inputs");
  RowCheck rows(graph, found.symbol);
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.kind == ir::InputKind::kUser && !rows.has_rows(graph.at(input.value))) {
      return refuse(fmt::format("input '{}' has {} in more than its first extent", input.name, found.symbol));
    }
  }
  for (const ir::GraphOutput& output : graph.outputs) {
    if (output.kind != ir::OutputKind::kUser) return refuse(fmt::format("the model writes '{}'", output.name));
    const ir::ValueId* id = output.value.value_id();
    if (id == nullptr) continue;
    const ir::Value& value = graph.at(*id);
    if (!rows.has_rows(value) || !value.tensor.dims[0].is_symbol()) {
      return refuse(fmt::format("output '{}' does not have {} rows", output.name, found.symbol));
    }
  }
  KPT_RETURN_IF_ERROR(rows.check());
  for (const ir::GraphOutput& output : graph.outputs) {
    const ir::ValueId* id = output.value.value_id();
    if (id != nullptr && !rows.holds_rows(*id)) {
      return refuse(fmt::format("output '{}' does not come from the rows of the inputs", output.name));
    }
  }
  const auto range = std::ranges::find(graph.symbols, found.symbol, &ir::SymbolRange::name);
  if (range != graph.symbols.end() && range->min) found.least = std::max<std::int64_t>(*range->min, 1);
  if (range != graph.symbols.end() && range->max) found.most = *range->max;
  return found;
}

}  // namespace kpt
