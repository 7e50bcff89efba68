#include "kernels/gpu/launch.h"

#include "kernels/gpu/plan_checks.h"

namespace kpt::gpu {

Status run_plan(Launcher& launcher, const Result<Plan>& plan, void* stream) {
  if (!plan.ok()) return plan.status();
  for (const Launch& launch : *plan) KPT_RETURN_IF_ERROR(launcher.launch(launch, stream));
  return {};
}

std::string_view unit_name(MatrixUnit unit) {
  switch (unit) {
    case MatrixUnit::kNone: break;
    case MatrixUnit::kCdna2: return "cdna2";
    case MatrixUnit::kCdna3: return "cdna3";
    case MatrixUnit::kCdna4: return "cdna4";
    case MatrixUnit::kRdna3: return "rdna3";
    case MatrixUnit::kRdna4: return "rdna4";
  }
  return "";
}

std::string_view type_suffix(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return "f32";
    case DType::kFloat16: return "f16";
    case DType::kBFloat16: return "bf16";
    case DType::kInt8: return "i8";
    case DType::kFloat8E4M3FN: return "e4m3";
    case DType::kFloat8E4M3FNUZ: return "e4m3fnuz";
    case DType::kFloat8E5M2: return "e5m2";
    case DType::kFloat8E5M2FNUZ: return "e5m2fnuz";
    default: return "";
  }
}

bool is_kernel_type(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

bool is_quantized_type(DType dtype) { return !is_kernel_type(dtype) && !type_suffix(dtype).empty(); }

Status check_sizes(std::string_view kernel, std::initializer_list<std::int64_t> sizes) {
  std::int64_t product = 1;
  for (const std::int64_t size : sizes) {
    if (size < 0) return invalid_call(kernel, fmt::format("a size is {}", size));
    if (size != 0 && __builtin_mul_overflow(product, size, &product)) {
      return invalid_call(kernel, "there are more elements than 64 bits can count");
    }
  }
  if (product > (std::numeric_limits<std::int64_t>::max() >> 2)) {
    return invalid_call(kernel, "there are more elements than 62 bits can count");
  }
  return {};
}

Status check_blocks(std::string_view kernel, std::int64_t blocks) {
  if (blocks > std::numeric_limits<std::int32_t>::max()) {
    return invalid_call(kernel, fmt::format("{} blocks are needed and a grid has at most 2147483647", blocks));
  }
  return {};
}

}  // namespace kpt::gpu
