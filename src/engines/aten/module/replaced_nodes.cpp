#include "engines/aten/module/replaced_nodes.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include "engines/aten/module/frame.h"
#include "engines/aten/module/tensors.h"
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

// Whether libtorch has a product on NVIDIA GPUs: from Ada on, extents that 16 divides, rows of one operand by columns
// of the other, both E4M3 or one of them E5M2 (on the right with single scales alone, and with a wider result), scales
// for each row and column where the result is bfloat16, a bias of the result's type.
bool takes_scaled_product(const Step& step, const Frame& frame) {
  const at::Tensor& self = tensor_at(step.arguments[0], frame);
  const at::Tensor& mat2 = tensor_at(step.arguments[1], frame);
  if (kGpuKind.multiplies_fp8 == nullptr || !kGpuKind.multiplies_fp8(self.device().index())) return false;
  const auto fits = [](std::int64_t extent) { return extent != 0 && extent % 16 == 0; };
  if (self.dim() != 2 || mat2.dim() != 2 || self.size(0) == 0) return false;
  if (!fits(self.size(1)) || !fits(mat2.size(1))) return false;
  const auto is_narrow = [](const at::Tensor& codes) { return codes.scalar_type() == at::kFloat8_e4m3fn; };
  const auto is_wide = [](const at::Tensor& codes) { return codes.scalar_type() == at::kFloat8_e5m2; };
  const bool mixed = (is_wide(self) && is_narrow(mat2)) || (is_narrow(self) && is_wide(mat2));
  if (!mixed && (!is_narrow(self) || !is_narrow(mat2))) return false;
  if (self.stride(1) != 1 || mat2.stride(0) != 1) return false;
  const auto dtype = step.arguments[6].constant.toOptional<at::ScalarType>();
  if (mixed && !dtype) return false;
  const bool half = dtype == at::kBFloat16 || dtype == at::kHalf;
  const bool biased = !step.arguments[4].is_constant();
  if (biased && (!half || tensor_at(step.arguments[4], frame).scalar_type() != dtype)) return false;
  const at::Tensor& rows = tensor_at(step.arguments[2], frame);
  const at::Tensor& columns = tensor_at(step.arguments[3], frame);
  if (rows.numel() == 1 && columns.numel() == 1) return true;
  return dtype == at::kBFloat16 && is_narrow(mat2) && rows.dim() == 2 && rows.size(0) == self.size(0) &&
         columns.dim() == 2 && columns.size(1) == mat2.size(1);
}

void run_scaled_product_on_nvidia(const Step& step, Frame& frame) {
  if (!takes_scaled_product(step, frame)) return run_scaled_product(step, frame);
  const bool biased = !step.arguments[4].is_constant();
  const c10::IValue& dtype = step.arguments[6].constant;
  frame.slots[step.result()] =
      at::_scaled_mm(tensor_at(step.arguments[0], frame), tensor_at(step.arguments[1], frame),
                     tensor_at(step.arguments[2], frame), tensor_at(step.arguments[3], frame),
                     biased ? std::optional<at::Tensor>(tensor_at(step.arguments[4], frame)) : std::nullopt,
                     std::nullopt, dtype.toOptional<at::ScalarType>(), step.arguments[7].constant.toBool());
}

// What PyTorch's decompositions leave of attention that was exported on a CPU: (query, key, value, dropout_p,
// is_causal, attn_mask, scale). The logarithm of the sums, its second result, is for gradients.
void run_cpu_attention_on_gpu(const Step& step, Frame& frame) {
  require_as(StatusCode::kUnsupported, step.arguments[3].constant.toDouble() == 0, "it drops numbers out at random");
  const bool masked = !step.arguments[5].is_constant();
  frame.slots[step.result()] = at::scaled_dot_product_attention(
      tensor_at(step.arguments[0], frame), tensor_at(step.arguments[1], frame), tensor_at(step.arguments[2], frame),
      masked ? std::optional<at::Tensor>(tensor_at(step.arguments[5], frame)) : std::nullopt, 0,
      step.arguments[4].constant.toBool(), step.arguments[6].constant.toOptional<double>());
}

bool uses(const std::vector<ir::NamedArgument>& arguments, ir::ValueId wanted) {
  bool found = false;
  for (const ir::NamedArgument& argument : arguments) {
    ir::for_each_value(argument.value, [&](ir::ValueId id) { found = found || id == wanted; });
  }
  return found;
}

bool cpu_attention_fits(const ir::Graph& graph, const ir::Node& node) {
  if (node.outputs.size() < 2) return true;
  const ir::ValueId sums = node.outputs[1].values[0];
  for (const ir::Node& other : graph.nodes) {
    if (uses(other.arguments, sums)) return false;
  }
  return std::ranges::none_of(graph.outputs, [&](const ir::GraphOutput& output) {
    const ir::ValueId* const id = output.value.value_id();
    return id != nullptr && *id == sums;
  });
}

bool scaled_product_fits(const ir::Graph& graph, const ir::Node& node) {
  return ir::read_scaled_product(graph, node).ok();
}

struct ReplacedEntry {
  std::string_view target;
  bool (*fits)(const ir::Graph& graph, const ir::Node& node);
  TypedFunction on_cpu;  // null: libtorch's kernel does
  TypedFunction on_nvidia;
  TypedFunction on_amd;
};

// libtorch's ROCm build multiplies FP8 on four targets alone, and float8_e4m3fn on three of them: a model that was
// loaded would fail when it runs. Float32 is the same everywhere.
constexpr ReplacedEntry kReplaced[] = {
    {"aten._scaled_mm.default", scaled_product_fits, run_scaled_product, run_scaled_product_on_nvidia,
     run_scaled_product},
    {"aten._scaled_dot_product_flash_attention_for_cpu.default", cpu_attention_fits, nullptr, run_cpu_attention_on_gpu,
     run_cpu_attention_on_gpu},
};

}  // namespace

TypedFunction find_replacement(const ir::Graph& graph, const ir::Node& node, const at::Device& device) {
  for (const ReplacedEntry& entry : kReplaced) {
    if (entry.target != node.target || !entry.fits(graph, node)) continue;
    if (device.is_cpu()) return entry.on_cpu;
    return kGpuKind.vendor == Vendor::kAmd ? entry.on_amd : entry.on_nvidia;
  }
  return nullptr;
}

}  // namespace kpt::aten
