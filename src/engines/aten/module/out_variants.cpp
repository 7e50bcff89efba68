#include "engines/aten/module/out_variants.h"

#include <algorithm>

#include "engines/aten/module/typed_nodes.h"
#include "ir/text_names.h"

namespace kpt::aten {
namespace {

// Target → the overload of the same operator that takes `out`. All have kernels that write there directly and honour
// every layout of it: tril and triu step through batches by the stride of axis -3 even where that axis has one element,
// so they are not here. gelu honours one layout only, see needs_row_major().
struct OutVariant {
  std::string_view target;
  std::string_view overload;
};

constexpr OutVariant kOutVariants[] = {
    {"aten.abs.default", "out"},
    {"aten.add.Tensor", "out"},
    {"aten.addmm.default", "out"},
    {"aten.amax.default", "out"},
    {"aten.amin.default", "out"},
    {"aten.argmax.default", "out"},
    {"aten.argmin.default", "out"},
    {"aten.atan2.default", "out"},
    {"aten.baddbmm.default", "out"},
    {"aten.bitwise_and.Tensor", "Tensor_out"},
    {"aten.bitwise_not.default", "out"},
    {"aten.bitwise_or.Tensor", "Tensor_out"},
    {"aten.bitwise_xor.Tensor", "Tensor_out"},
    {"aten.bmm.default", "out"},
    {"aten.cat.default", "out"},
    {"aten.ceil.default", "out"},
    {"aten.clamp.default", "out"},
    {"aten.clamp_max.default", "out"},
    {"aten.clamp_min.default", "out"},
    {"aten.cos.default", "out"},
    {"aten.cumsum.default", "out"},
    {"aten.div.Tensor", "out"},
    {"aten.div.Tensor_mode", "out_mode"},
    {"aten.elu.default", "out"},
    {"aten.eq.Scalar", "Scalar_out"},
    {"aten.eq.Tensor", "Tensor_out"},
    {"aten.erf.default", "out"},
    {"aten.exp.default", "out"},
    {"aten.floor.default", "out"},
    {"aten.gather.default", "out"},
    {"aten.ge.Scalar", "Scalar_out"},
    {"aten.ge.Tensor", "Tensor_out"},
    {"aten.gelu.default", "out"},
    {"aten.gt.Scalar", "Scalar_out"},
    {"aten.gt.Tensor", "Tensor_out"},
    {"aten.hardsigmoid.default", "out"},
    {"aten.hardswish.default", "out"},
    {"aten.hardtanh.default", "out"},
    {"aten.index_select.default", "out"},
    {"aten.le.Scalar", "Scalar_out"},
    {"aten.le.Tensor", "Tensor_out"},
    {"aten.leaky_relu.default", "out"},
    {"aten.log.default", "out"},
    {"aten.logical_and.default", "out"},
    {"aten.logical_not.default", "out"},
    {"aten.logical_or.default", "out"},
    {"aten.lt.Scalar", "Scalar_out"},
    {"aten.lt.Tensor", "Tensor_out"},
    {"aten.maximum.default", "out"},
    {"aten.mean.dim", "out"},
    {"aten.minimum.default", "out"},
    {"aten.mm.default", "out"},
    {"aten.mul.Tensor", "out"},
    {"aten.ne.Scalar", "Scalar_out"},
    {"aten.ne.Tensor", "Tensor_out"},
    {"aten.neg.default", "out"},
    {"aten.pow.Tensor_Scalar", "Tensor_Scalar_out"},
    {"aten.pow.Tensor_Tensor", "Tensor_Tensor_out"},
    {"aten.reciprocal.default", "out"},
    {"aten.round.default", "out"},
    {"aten.rsqrt.default", "out"},
    {"aten.sigmoid.default", "out"},
    {"aten.silu.default", "out"},
    {"aten.sin.default", "out"},
    {"aten.softplus.default", "out"},
    {"aten.sqrt.default", "out"},
    {"aten.sub.Tensor", "out"},
    {"aten.sum.dim_IntList", "IntList_out"},
    {"aten.tanh.default", "out"},
    {"aten.where.self", "self_out"},
};

// Of a row-major input oneDNN's gelu writes the result row-major too, whatever the layout of `out`; and the recorded
// layout of an input need not be the one it has.
bool needs_row_major(std::string_view target) { return target == "aten.gelu.default"; }

bool is_row_major(const ir::Graph& graph, const Step& step) {
  for (const ResultTarget& result : step.results) {
    for (const std::int64_t slot : result.slots) {
      if (slot < 0) continue;
      const ir::TensorType& type = graph.values[static_cast<std::size_t>(slot)].tensor;
      if (type.strides != ir::row_major_strides(type.dims)) return false;
    }
  }
  return true;
}

}  // namespace

bool use_planned_result(const ir::Graph& graph, Step& step, std::uint32_t& scratch_count) {
  if (step.kind != Step::Kind::kBoxed || !step.op) return false;
  const ir::Node& node = graph.nodes[step.node];
  if (const TypedFunction typed = find_typed_function(graph, step)) {
    step.kind = Step::Kind::kTyped;
    step.typed = typed;
    step.scratch = scratch_count++;
    return true;
  }
  const auto* variant = std::find_if(std::begin(kOutVariants), std::end(kOutVariants),
                                     [&](const OutVariant& entry) { return entry.target == node.target; });
  if (variant == std::end(kOutVariants)) return false;
  if (needs_row_major(node.target) && !is_row_major(graph, step)) return false;
  auto out = c10::Dispatcher::singleton().findSchema({step.op->schema().name(), std::string(variant->overload)});
  if (!out) return false;
  // The same arguments in the same order, then the place for the result.
  const auto& plain = step.op->schema().arguments();
  const auto& with_out = out->schema().arguments();
  if (with_out.size() != plain.size() + 1 || !with_out.back().is_out()) return false;
  for (std::size_t index = 0; index < plain.size(); ++index) {
    if (plain[index].name() != with_out[index].name()) return false;
  }
  step.out_op = out;
  return true;
}

}  // namespace kpt::aten
