#include "kernels/cpu/norm.h"

#include <algorithm>

#include "kernels/cpu/simd_kernels.h"

namespace kpt::kernels {
namespace {

// A thread takes so many elements at a time at least: waking another costs as much as this many.
constexpr std::int64_t kTaskElements = 16384;

std::int64_t padded(std::int64_t width) { return (width + 15) / 16 * 16; }

// What a row needs besides its result, in rows: the sum, the second operand, and the result before it is rounded.
constexpr std::int64_t kScratchRows = 3;

const float* float_weights(const void* weights, DType dtype, std::int64_t width, float* buffer) {
  if (weights == nullptr || dtype == DType::kFloat32) return static_cast<const float*>(weights);
  load_row(weights, dtype, 1, width, buffer);
  return buffer;
}

void run_row(const AddNorm& call, const NormForm& form, std::int64_t index, float* scratch) {
  const SimdKernels& simd = simd_kernels();
  const std::int64_t width = call.input.width();
  const std::int64_t place =
      index * width *
      static_cast<std::int64_t>(element_bytes(call.input.dtype));  // of the row in the results, in bytes
  const bool plain = call.input.dtype == DType::kFloat32;
  char* sum_place = call.sum == nullptr ? nullptr : static_cast<char*>(call.sum) + place;
  float* second = scratch + padded(width);
  float* normed = scratch + 2 * padded(width);

  const float* row = float_row(call.input, index, scratch);
  if (call.residual.data != nullptr) {
    const float* other = float_row(call.residual, index, second);
    float* sum = plain && sum_place != nullptr ? reinterpret_cast<float*>(sum_place) : scratch;
    simd.add_rows(row, other, width, sum);
    row = sum;
  }
  if (sum_place != nullptr && static_cast<const void*>(row) != sum_place) {
    store_row(row, width, call.input.dtype, sum_place);
  }
  if (call.normed == nullptr) return;
  char* normed_place = static_cast<char*>(call.normed) + place;
  if (plain) {
    simd.norm_row(row, width, form, reinterpret_cast<float*>(normed_place));
    return;
  }
  simd.norm_row(row, width, form, normed);
  store_row(normed, width, call.input.dtype, normed_place);
}

}  // namespace

std::size_t add_norm_workspace(const AddNorm& call, int threads) {
  const auto rows = static_cast<std::size_t>(threads) * kScratchRows + 2;
  return rows * static_cast<std::size_t>(padded(call.input.width())) * sizeof(float);
}

void run_add_norm(const AddNorm& call, const Parallel& parallel, void* workspace) {
  const std::int64_t width = call.input.width();
  const std::int64_t rows = call.input.count();
  if (rows == 0 || width == 0) return;
  auto* weights = static_cast<float*>(workspace);
  float* scratch = weights + 2 * padded(width);
  NormForm form;
  form.weight = float_weights(call.weight, call.weight_dtype, width, weights);
  form.bias = float_weights(call.bias, call.bias_dtype, width, weights + padded(width));
  form.epsilon = call.epsilon;
  form.centered = call.kind == NormKind::kLayer;
  const std::int64_t task_rows = std::max<std::int64_t>(1, kTaskElements / width);
  auto run_task = [&](std::int64_t task, int worker) {
    float* own = scratch + worker * kScratchRows * padded(width);
    const std::int64_t end = std::min(rows, (task + 1) * task_rows);
    for (std::int64_t row = task * task_rows; row < end; ++row) run_row(call, form, row, own);
  };
  parallel.for_each((rows + task_rows - 1) / task_rows, run_task);
}

}  // namespace kpt::kernels
