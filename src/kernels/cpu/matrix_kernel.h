// The inner parts of a matrix product, one set per instruction set, and which of them this processor can run.
//
// A product out = A · Wᵀ is cut into tiles of `rows` × `columns`. Both operands are packed so that a tile reads memory
// in order: A in panels of `rows` rows, W in panels of `columns` of its rows; within a panel come units of `depth`
// elements of K: of A [unit][row][depth], of W [unit][depth / weight_depth][column][weight_depth], which is the same
// where weight_depth is depth. K is padded with zeros to whole units, W's last panel with zero rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cpu/activation.h"
#include "kernels/cpu/cpu_features.h"

namespace kpt::kernels {

// kInt8: rows of A that are quantized already, by a scale each. Outputs and residuals are never that.
enum class ElementType : std::uint8_t { kFloat32, kBfloat16, kInt8 };
inline constexpr std::size_t element_bytes(ElementType type) {
  return type == ElementType::kFloat32 ? 4 : type == ElementType::kBfloat16 ? 2 : 1;
}

// What the weights are stored as, and with kInt8 the inputs too.
enum class LinearForm : std::uint8_t { kFloat32, kBfloat16, kInt8, kWeightInt8, kInt4 };
std::string_view to_string(LinearForm form);
// Integers with scales that become floats before they are multiplied.
inline constexpr bool has_scaled_codes(LinearForm form) {
  return form == LinearForm::kWeightInt8 || form == LinearForm::kInt4;
}

inline constexpr int kGreatestTileRows = 32;
inline constexpr int kGreatestTileColumns = 48;
// So many bytes behind the panels that `multiply` is given must be readable: it loads what it needs next.
inline constexpr std::size_t kReadAhead = 192;

// Up to one panel of A as it comes: a pointer to the first of `depth` dense elements per row.
struct InputRows {
  const void* rows[kGreatestTileRows] = {};
  int count = 0;
  std::int64_t depth = 0;
  ElementType type = ElementType::kFloat32;
  float scales[kGreatestTileRows] = {};  // kInt8: what each row was divided by
};

// The last step on `rows` × `columns` results (columns at most the tile's): out = activation(tile · scales + bias +
// residual). `residual` and `out` may be the same memory.
struct FinishedRows {
  void* tile = nullptr;  // float, or int32 of an int8 product; row stride MatrixKernel::columns; overwritten
  std::int64_t rows = 0;
  int columns = 0;
  const float* bias = nullptr;                  // per column, padded to the tile; null: none
  const float* column_scale = nullptr;          // int8: per column, padded
  const std::int32_t* column_offset = nullptr;  // int8: added to the sums, padded; null: none
  const float* row_scale = nullptr;             // int8: per row
  const void* residual = nullptr;               // null: none
  std::int64_t residual_stride = 0;             // in elements
  ElementType residual_type = ElementType::kFloat32;
  void* out = nullptr;
  std::int64_t out_stride = 0;
  ElementType out_type = ElementType::kFloat32;
  Activation activation = Activation::kNone;
};

// Packed weights of a part of one panel that must become float before they are multiplied.
struct StoredPanel {
  const void* weights = nullptr;  // of the whole panel
  const float* scales = nullptr;  // has_scaled_codes(): [K / group][columns]
  std::int64_t group = 0;         // has_scaled_codes(): int8 weights have one group
  std::int64_t first = 0;         // which elements of K
  std::int64_t depth = 0;
};

struct WinogradInput;  // winograd.h
struct WinogradOutput;

// Functions of one instruction set. They touch no memory but what they are given.
struct MatrixKernel {
  std::string_view name;
  int rows = 0;
  int columns = 0;
  int depth = 1;
  int weight_depth = 0;          // a divisor of depth; 0: depth
  int input_bytes = 4;           // of one packed element of A
  int weight_bytes = 4;          // of one packed element of W, as `multiply` reads it
  std::int32_t input_shift = 0;  // int8: what was added to every quantized input
  int depth_block = 512;         // how many elements of K are taken at once, so that a panel of W stays in L1

  // int8: the scale of each row; null for the other forms.
  void (*scale_rows)(const InputRows& input, float* row_scales) = nullptr;
  // int8: the first row, divided by its scale; null for the other forms.
  void (*quantize_row)(const InputRows& input, float scale, std::int8_t* target) = nullptr;
  // Packs one panel of rows or of a stretch of them; what it leaves in the rows past `count` has no meaning. int8:
  // quantizes by `row_scales`.
  void (*pack_input)(const InputRows& input, void* panel, const float* row_scales) = nullptr;
  // What a thread does before its first multiply() of a product with so many rows, and after its last; null: nothing.
  // In between it runs nothing but these functions.
  void (*enter)(std::int64_t rows) = nullptr;
  void (*leave)() = nullptr;
  // tile[rows][columns] (+)= panels over `units` units, whose first `rows` rows count; what becomes of the others does
  // not matter.
  void (*multiply)(std::int64_t units, const void* input, const void* weights, void* tile, int rows,
                   bool accumulate) = nullptr;
  // multiply() of whole panels that also asks for ahead_bytes of `next` with each unit, so that they are here later.
  void (*multiply_ahead)(std::int64_t units, const void* input, const void* weights, void* tile, const void* next,
                         bool accumulate) = nullptr;
  int ahead_bytes = 0;
  // multiply() for panels of W with at most narrow_columns columns; the tile's others are left alone.
  void (*multiply_narrow)(std::int64_t units, const void* input, const void* weights, void* tile, int rows, int columns,
                          bool accumulate) = nullptr;
  int narrow_columns = 0;
  // multiply() of a tile or of its first columns that asks for `next` as multiply_ahead() does and, where told so, is
  // finish() too, for float results and residuals that are at most clamped; null: there is none. A kernel that has it
  // packs stretches of rows that it has not seen as a whole.
  void (*multiply_streamed)(std::int64_t units, const void* input, const void* weights, const FinishedRows& rows,
                            const void* next, bool accumulate, bool finishes) = nullptr;
  // The transforms of winograd.h, for units of eight; null: there are none.
  void (*transform_input)(const WinogradInput& tile) = nullptr;
  void (*transform_output)(const WinogradOutput& tile) = nullptr;
  void (*finish)(const FinishedRows& rows) = nullptr;
  // Writes [depth][columns] floats; null where `multiply` reads the stored weights.
  void (*expand)(const StoredPanel& stored, float* weights) = nullptr;
  // expand() and multiply() in one for at most stored_rows rows, where a panel is used too seldom to be written out.
  void (*multiply_stored)(const StoredPanel& stored, const void* input, void* tile, int rows,
                          bool accumulate) = nullptr;
  int stored_rows = 0;
};

// One way to run a form.
struct KernelCandidate {
  MatrixKernel kernel;
  std::string why_not;  // empty: this processor can run it
};

// Best first; the last always runs. What this build was not made for (x86 on aarch64) is not listed.
std::vector<KernelCandidate> list_kernels(LinearForm form, const CpuFeatures& features);
// "; not NAME: REASON" for each that comes before the first that runs.
std::string list_refused(LinearForm form, const CpuFeatures& features = cpu_features());

}  // namespace kpt::kernels
