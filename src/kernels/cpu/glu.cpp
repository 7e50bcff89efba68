#include "kernels/cpu/glu.h"

#include <algorithm>

namespace kpt::kernels {
namespace {

// A piece of a row that stays in the nearest cache between the loops over it.
constexpr std::int64_t kPiece = 512;
// A thread takes so many results at a time at least.
constexpr std::int64_t kTaskElements = 4096;

void run_piece(const char* first, const char* second, DType dtype, std::int64_t step, std::int64_t count,
               Activation activation, char* result) {
  float gates[kPiece];
  float values[kPiece];
  load_row(first, dtype, step, count, gates);
  apply(activation, gates, count);
  const auto* factors = reinterpret_cast<const float*>(second);
  if (dtype != DType::kFloat32 || step != 1) {
    load_row(second, dtype, step, count, values);
    factors = values;
  }
  for (std::int64_t index = 0; index < count; ++index) gates[index] *= factors[index];
  store_row(gates, count, dtype, result);
}

}  // namespace

void run_glu(const Rows& input, Activation activation, void* result, const Parallel& parallel) {
  const std::int64_t width = input.width() / 2;
  const std::int64_t rows = input.count();
  if (rows == 0 || width == 0) return;
  const auto bytes = static_cast<std::int64_t>(element_bytes(input.dtype));
  const std::int64_t pieces = (width + kPiece - 1) / kPiece;  // of one row
  const std::int64_t task_pieces = std::max<std::int64_t>(1, kTaskElements / std::min(width, kPiece));
  auto run_task = [&](std::int64_t task, int /*worker*/) {
    const std::int64_t end = std::min(rows * pieces, (task + 1) * task_pieces);
    for (std::int64_t piece = task * task_pieces; piece < end; ++piece) {
      const std::int64_t row = piece / pieces;
      const std::int64_t start = piece % pieces * kPiece;
      const char* source = static_cast<const char*>(input.row(row));
      run_piece(source + start * input.step() * bytes, source + (width + start) * input.step() * bytes, input.dtype,
                input.step(), std::min(kPiece, width - start), activation,
                static_cast<char*>(result) + (row * width + start) * bytes);
    }
  };
  parallel.for_each((rows * pieces + task_pieces - 1) / task_pieces, run_task);
}

}  // namespace kpt::kernels
