#include "passes/recognize_activations.h"

#include <cmath>

#include "passes/graph_edit.h"
#include "passes/node_arguments.h"

namespace kpt {
namespace {

// Constants of models come in float32 or double.
bool is_near(double a, double b) { return std::fabs(a - b) <= 1e-6 * std::fabs(b); }

// A tensor times a number, with the number wherever it stands; x / n counts as x · (1 / n).
struct Scaled {
  ir::ValueId value = ir::kNoValue;
  double factor = 1;
};

class ActivationMatcher {
 public:
  explicit ActivationMatcher(const GraphEdit& edit) : edit_(edit) {}

  // The target and, if it has one, `approximate` of the activation that ends here, and what it is of.
  struct Found {
    ir::ValueId input = ir::kNoValue;
    std::string target;
    std::string approximate;
  };

  Found match(const ir::Node& node) const {
    if (node.target != "aten.mul.Tensor") return {};
    const ir::ValueId a = value_argument(node, "self");
    const ir::ValueId b = value_argument(node, "other");
    if (a == ir::kNoValue || b == ir::kNoValue) return match_halved_last(node);
    if (is_sigmoid_of(b, a)) return {a, "aten.silu.default", ""};
    if (is_sigmoid_of(a, b)) return {b, "aten.silu.default", ""};
    for (const auto& [left, right] : {std::pair(a, b), std::pair(b, a)}) {
      const Scaled half = unscale(left);
      if (is_near(half.factor, 0.5)) {
        if (const Found found = match_gelu(half.value, right); found.input != ir::kNoValue) return found;
      }
    }
    return {};
  }

 private:
  bool is_private(ir::ValueId id) const { return edit_.has_one_use(id); }

  // (x · (1 + tanh(…))) · 0.5
  Found match_halved_last(const ir::Node& node) const {
    const ir::ValueId self = value_argument(node, "self");
    if (self == ir::kNoValue || !number_argument(node, "other") || !is_near(*number_argument(node, "other"), 0.5)) {
      return {};
    }
    const ir::Node* product = edit_.made_by(self, {"aten.mul.Tensor"});
    if (product == nullptr || !is_private(self)) return {};
    const ir::ValueId a = value_argument(*product, "self");
    const ir::ValueId b = value_argument(*product, "other");
    if (a == ir::kNoValue || b == ir::kNoValue) return {};
    if (const Found found = match_gelu(a, b); found.input != ir::kNoValue) return found;
    return match_gelu(b, a);
  }

  // `bracket` is 1 + tanh(…) or 1 + erf(…) of x.
  Found match_gelu(ir::ValueId x, ir::ValueId bracket) const {
    const ir::ValueId curve = without_summand(bracket, 1.0);
    if (curve == ir::kNoValue) return {};
    if (const ir::Node* erf = edit_.made_by(curve, {"aten.erf.default"})) {
      const Scaled inside = unscale(value_argument(*erf, "self"));
      if (inside.value == x && is_near(inside.factor, std::sqrt(0.5))) return {x, "aten.gelu.default", "none"};
    }
    if (const ir::Node* tanh = edit_.made_by(curve, {"aten.tanh.default"})) {
      const Scaled inside = unscale(value_argument(*tanh, "self"));
      if (is_near(inside.factor, 0.7978845608028654) && is_cubic_of(inside.value, x)) {
        return {x, "aten.gelu.default", "tanh"};
      }
    }
    return {};
  }

  // x + 0.044715 x³
  bool is_cubic_of(ir::ValueId sum, ir::ValueId x) const {
    const ir::Node* add = edit_.made_by(sum, {"aten.add.Tensor"});
    if (add == nullptr || !is_private(sum) || number_argument(*add, "alpha", 1.0) != 1.0) return false;
    const ir::ValueId a = value_argument(*add, "self");
    const ir::ValueId b = value_argument(*add, "other");
    const ir::ValueId cube = a == x ? b : (b == x ? a : ir::kNoValue);
    const Scaled scaled = cube == ir::kNoValue ? Scaled{} : unscale(cube);
    return is_near(scaled.factor, 0.044715) && is_cube_of(scaled.value, x);
  }

  bool is_cube_of(ir::ValueId cube, ir::ValueId x) const {
    if (const ir::Node* pow = edit_.made_by(cube, {"aten.pow.Tensor_Scalar"})) {
      return value_argument(*pow, "self") == x && number_argument(*pow, "exponent") == 3.0;
    }
    const ir::Node* product = edit_.made_by(cube, {"aten.mul.Tensor"});
    if (product == nullptr) return false;
    const ir::ValueId a = value_argument(*product, "self");
    const ir::ValueId b = value_argument(*product, "other");
    const ir::ValueId square = a == x ? b : (b == x ? a : ir::kNoValue);
    if (const ir::Node* pow = edit_.made_by(square, {"aten.pow.Tensor_Scalar"})) {
      return value_argument(*pow, "self") == x && number_argument(*pow, "exponent") == 2.0;
    }
    const ir::Node* second = edit_.made_by(square, {"aten.mul.Tensor"});
    return second != nullptr && value_argument(*second, "self") == x && value_argument(*second, "other") == x;
  }

  bool is_sigmoid_of(ir::ValueId id, ir::ValueId x) const {
    const ir::Node* sigmoid = edit_.made_by(id, {"aten.sigmoid.default"});
    return sigmoid != nullptr && is_private(id) && value_argument(*sigmoid, "self") == x;
  }

  ir::ValueId without_summand(ir::ValueId id, double number) const {
    const ir::Node* add = edit_.made_by(id, {"aten.add.Tensor", "aten.add.Scalar"});
    if (add == nullptr || !is_private(id) || number_argument(*add, "alpha", 1.0) != 1.0) return ir::kNoValue;
    if (number_argument(*add, "other") == number) return value_argument(*add, "self");
    const ir::ValueId a = value_argument(*add, "self");
    const ir::ValueId b = value_argument(*add, "other");
    if (b == ir::kNoValue) return ir::kNoValue;
    if (edit_.constant_number(b) == number) return a;
    return edit_.constant_number(a) == number ? b : ir::kNoValue;
  }

  Scaled unscale(ir::ValueId id) const {
    const ir::Node* node = edit_.made_by(id, {"aten.mul.Tensor", "aten.mul.Scalar", "aten.div.Tensor"});
    if (node == nullptr || !is_private(id)) return {id, 1};
    const ir::ValueId self = value_argument(*node, "self");
    std::optional<double> factor = number_argument(*node, "other");
    if (const ir::ValueId other = value_argument(*node, "other"); !factor && other != ir::kNoValue) {
      factor = edit_.constant_number(other);
      if (!factor && node->target == "aten.mul.Tensor" && edit_.constant_number(self)) {
        return {other, *edit_.constant_number(self)};
      }
    }
    if (!factor || self == ir::kNoValue) return {id, 1};
    return {self, node->target == "aten.div.Tensor" ? 1 / *factor : *factor};
  }

  const GraphEdit& edit_;
};

Result<PassStats> run_recognize_activations(ir::Graph& graph, PassContext& context) {
  PassStats stats;
  GraphEdit edit(graph, context.weights);
  for (NodeIndex index = 0; index < edit.size(); ++index) {
    if (!edit.is_alive(index)) continue;
    const ActivationMatcher::Found found = ActivationMatcher(edit).match(edit.node(index));
    const ir::ValueId result = only_result(edit.node(index));
    if (found.input == ir::kNoValue || edit.facts().is_written(found.input)) continue;
    if (edit.type(found.input).dims != edit.type(result).dims ||
        edit.type(found.input).dtype != edit.type(result).dtype) {
      continue;
    }
    std::vector<ir::NamedArgument> arguments = {{"self", {found.input}}};
    if (found.approximate == "tanh") arguments.push_back({"approximate", {found.approximate}});
    ++stats.changes;
    stats.details.push_back(edit.node(index).name + " is " + std::string(operator_name(found.target)));
    edit.replace_call(index, found.target, std::move(arguments));
  }
  return stats;
}

Support applies_recognize_activations(const Capabilities& /*capabilities*/) { return {}; }

}  // namespace

const Pass kRecognizeActivations = {"recognize_activations", "GELU and SiLU that were written out become one node",
                                    true, applies_recognize_activations, run_recognize_activations};

}  // namespace kpt
