#include "kernels/cpu/rotary.h"

#include <algorithm>

namespace kpt::kernels {
namespace {

constexpr std::int64_t kTaskElements = 16384;  // a thread takes so many at a time at least
constexpr std::int64_t kScratchRows = 4;       // of a worker: input, cosines, sines, result

std::int64_t padded(std::int64_t width) { return (width + 15) / 16 * 16; }

void rotate_row(const float* row, const float* cosines, const float* sines, std::int64_t width, float* result) {
  const std::int64_t half = width / 2;
  for (std::int64_t index = 0; index < half; ++index) {
    result[index] = row[index] * cosines[index] - row[half + index] * sines[index];
  }
  for (std::int64_t index = 0; index < half; ++index) {
    result[half + index] = row[half + index] * cosines[half + index] + row[index] * sines[half + index];
  }
}

}  // namespace

std::size_t rotary_workspace(const Rotary& call, int threads) {
  return static_cast<std::size_t>(threads) * kScratchRows * static_cast<std::size_t>(padded(call.input.width())) *
         sizeof(float);
}

void run_rotary(const Rotary& call, const Parallel& parallel, void* workspace) {
  const std::int64_t width = call.input.width();
  const std::int64_t rows = call.input.count();
  if (rows == 0 || width == 0) return;
  const auto bytes = static_cast<std::int64_t>(element_bytes(call.input.dtype));
  const std::int64_t task_rows = std::max<std::int64_t>(1, kTaskElements / width);
  auto run_task = [&](std::int64_t task, int worker) {
    float* scratch = static_cast<float*>(workspace) + worker * kScratchRows * padded(width);
    const std::int64_t end = std::min(rows, (task + 1) * task_rows);
    for (std::int64_t index = task * task_rows; index < end; ++index) {
      const float* row = float_row(call.input, index, scratch);
      const float* cosines = float_row(call.cosines, index, scratch + padded(width));
      const float* sines = float_row(call.sines, index, scratch + 2 * padded(width));
      char* target = static_cast<char*>(call.result) + index * width * bytes;
      const bool plain = call.input.dtype == DType::kFloat32;
      float* rotated = plain ? reinterpret_cast<float*>(target) : scratch + 3 * padded(width);
      rotate_row(row, cosines, sines, width, rotated);
      if (!plain) store_row(rotated, width, call.input.dtype, target);
    }
  };
  parallel.for_each((rows + task_rows - 1) / task_rows, run_task);
}

}  // namespace kpt::kernels
