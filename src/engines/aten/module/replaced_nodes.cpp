#include "engines/aten/module/replaced_nodes.h"

#include <string_view>

#include <ATen/ops/mm.h>

#include "engines/aten/module/frame.h"
#include "engines/aten/module/typed_failure.h"
#include "ir/scaled_product.h"

namespace kpt::aten {
namespace {

// The codes as numbers, times their scale: one, or one for each row or column. What was recorded may be a lie.
at::Tensor scaled_numbers(const at::Tensor& codes, const at::Tensor& scale, std::int64_t rows, std::int64_t columns) {
  const bool one = scale.numel() == 1 && scale.dim() <= 2;
  const bool along = scale.dim() == 2 && scale.size(0) == rows && scale.size(1) == columns;
  require_as(StatusCode::kPrecisionCompilation, codes.dim() == 2 && (one || along),
             "its scales are neither one nor one for each row or column");
  return codes.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true).mul_(scale);
}

// _scaled_mm(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum): in float32, as libtorch
// does where nothing is faster. Which scales its own kernels take depends on version and processor. Both operands are
// widened in every run, four times their bytes: kept so, a checkpoint in FP8 would take float32's memory.
void run_scaled_product(const Step& step, Frame& frame) {
  const at::Tensor& self = tensor_at(step.arguments[0], frame);
  const at::Tensor& mat2 = tensor_at(step.arguments[1], frame);
  const at::Tensor left = scaled_numbers(self, tensor_at(step.arguments[2], frame), self.size(0), 1);
  const at::Tensor right = scaled_numbers(mat2, tensor_at(step.arguments[3], frame), 1, mat2.size(-1));
  at::Tensor product = at::mm(left, right);
  if (!step.arguments[4].is_constant()) {
    const at::Tensor& bias = tensor_at(step.arguments[4], frame);
    require_as(StatusCode::kKernel, bias.dim() == 1 && bias.size(0) == product.size(1),
               "its bias has another length than its result has columns");
    product.add_(bias);
  }
  const c10::IValue& dtype = step.arguments[6].constant;
  frame.slots[step.result()] = product.to(dtype.isNone() ? self.scalar_type() : dtype.toScalarType());
}

bool scaled_product_fits(const ir::Graph& graph, const ir::Node& node) {
  return ir::read_scaled_product(graph, node).ok();
}

struct ReplacedEntry {
  std::string_view target;
  bool (*fits)(const ir::Graph& graph, const ir::Node& node);
  TypedFunction run;
};

constexpr ReplacedEntry kReplaced[] = {
    {"aten._scaled_mm.default", scaled_product_fits, run_scaled_product},
};

}  // namespace

TypedFunction find_replacement(const ir::Graph& graph, const ir::Node& node) {
  for (const ReplacedEntry& entry : kReplaced) {
    if (entry.target == node.target && entry.fits(graph, node)) return entry.run;
  }
  return nullptr;
}

}  // namespace kpt::aten
