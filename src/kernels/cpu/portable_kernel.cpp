#include "kernels/cpu/expand_weights.h"
#include "kernels/cpu/finish.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/pack_input.h"

namespace kpt::kernels {
namespace {

constexpr std::ptrdiff_t kRows = 4;
constexpr std::ptrdiff_t kColumns = 8;

struct Portable : ExpandCodes<kernels::kColumns> {
  static constexpr int kWidth = 4;
  static constexpr int kColumns = kernels::kColumns;
};

template <typename Sum, typename Input, typename Weight>
void multiply(std::int64_t units, const void* input, const void* weights, void* tile, int rows, bool accumulate) {
  const auto* a = static_cast<const Input*>(input);
  const auto* w = static_cast<const Weight*>(weights);
  auto* out = static_cast<Sum*>(tile);
  for (int row = 0; row < rows; ++row) {
    Sum sums[kColumns] = {};
    for (std::int64_t k = 0; k < units; ++k) {
      const Sum factor = a[k * kRows + row];  // NOLINT(bugprone-signed-char-misuse)
      for (int n = 0; n < kColumns; ++n) sums[n] += factor * w[k * kColumns + n];
    }
    for (int n = 0; n < kColumns; ++n) out[row * kColumns + n] = sums[n] + (accumulate ? out[row * kColumns + n] : 0);
  }
}

}  // namespace

MatrixKernel portable_kernel(LinearForm form) {
  MatrixKernel kernel;
  kernel.name = "float32 portable 4x8";
  kernel.rows = kRows;
  kernel.columns = kColumns;
  kernel.pack_input = &PackInput<Portable>::float32<kRows>;
  kernel.multiply = &multiply<float, float, float>;
  kernel.finish = &Finish<Portable, float>::run;
  if (form == LinearForm::kBfloat16) {
    kernel.name = "bfloat16 portable 4x8";
    kernel.pack_input = &PackInput<Portable>::rounded_float32<kRows>;
    kernel.expand = &ExpandWeights<Portable, kColumns>::bfloat16;
  } else if (form == LinearForm::kWeightInt8) {
    kernel.name = "int8 weights portable 4x8";
    kernel.expand = &ExpandWeights<Portable, kColumns>::int8;
  } else if (form == LinearForm::kInt4) {
    kernel.name = "int4 portable 4x8";
    kernel.expand = &ExpandWeights<Portable, kColumns>::int4;
  } else if (form == LinearForm::kInt8) {
    kernel.name = "int8 portable 4x8";
    kernel.input_bytes = 1;
    kernel.weight_bytes = 1;
    kernel.scale_rows = &PackInput<Portable>::int8_scales;
    kernel.quantize_row = &PackInput<Portable>::quantize_row;
    kernel.pack_input = &PackInput<Portable>::int8<kRows, 1, std::int8_t, 0>;
    kernel.multiply = &multiply<std::int32_t, std::int8_t, std::int8_t>;
    kernel.finish = &Finish<Portable, std::int32_t>::run;
  }
  return kernel;
}

}  // namespace kpt::kernels
