// out[M, N] = activation(A[M, K] · Wᵀ + bias + residual) with weights packed once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/cpu/matrix_kernel.h"
#include "kernels/cpu/parallel.h"
#include "kpt/status.h"

namespace kpt::kernels {

// Weights as they come; read during pack() only.
struct LinearWeights {
  LinearForm form = LinearForm::kFloat32;
  // [rows, columns]: elements of `type` for the forms float32 and bfloat16 (converted where they differ), int8 for
  // kInt8 and kWeightInt8, or two 4-bit values per byte (element 2j in the low bits, value - 8; `columns` is even).
  const void* data = nullptr;
  ElementType type = ElementType::kFloat32;
  std::int64_t rows = 0;         // N
  std::int64_t columns = 0;      // K
  std::int64_t row_stride = 0;   // in elements, in bytes for int4
  const float* scale = nullptr;  // int8, also of weights alone: [rows]; int4: [rows, columns / group], dense
  std::int64_t group = 0;        // int4: elements of K that share a scale; divides `columns`
  const void* bias = nullptr;    // [rows] or null
  ElementType bias_type = ElementType::kFloat32;
};

// One product. Strides are in elements, from row to row; elements of a row are dense.
struct LinearCall {
  std::int64_t rows = 0;  // M
  const void* input = nullptr;
  std::int64_t input_stride = 0;
  ElementType input_type = ElementType::kFloat32;
  const void* residual = nullptr;  // null: none; may be the output's own memory with the same stride
  std::int64_t residual_stride = 0;
  ElementType residual_type = ElementType::kFloat32;
  void* output = nullptr;
  std::int64_t output_stride = 0;
  ElementType output_type = ElementType::kFloat32;
  Activation activation = Activation::kNone;
};

// Where the rows of A come from when they lie nowhere as rows: the patches of a convolution.
struct RowSource {
  // Sets rows->rows[0 .. rows->count) to the rows from `first` on, and where they are of another type than the call's
  // rows->type; of int8 rows also the scales. May write them into `scratch` (64-byte aligned).
  void (*get)(const void* context, std::int64_t first, void* scratch, InputRows* rows) = nullptr;
  const void* context = nullptr;
  std::size_t scratch_bytes = 0;
  // Rows that lie in pieces of so many elements, for products that take_pieces_of() them: after get(), which then looks
  // only where they are, this sets rows->rows[0 .. rows->count) to one piece of each.
  void (*piece)(const void* context, std::int64_t index, const void* scratch, InputRows* rows) = nullptr;
  std::int64_t piece_depth = 0;
};

// Immutable after pack(); any number of threads may run it at once, each with its own workspace.
class PackedLinear {
 public:
  // Takes the first kernel of list_kernels() that runs on `features`, or the one named `kernel_name`. kInvalidArgument
  // for weights that contradict themselves, kPrecisionCompilation for extents that int8 or int4 cannot have,
  // kUnsupported for a kernel that cannot run, kOutOfMemory.
  static Result<PackedLinear> pack(const LinearWeights& weights, const CpuFeatures& features = cpu_features(),
                                   std::string_view kernel_name = {});

  PackedLinear(PackedLinear&&) noexcept = default;
  PackedLinear& operator=(PackedLinear&&) noexcept = default;
  PackedLinear(const PackedLinear&) = delete;
  PackedLinear& operator=(const PackedLinear&) = delete;
  ~PackedLinear() = default;

  LinearForm form() const { return form_; }
  std::int64_t out_features() const { return out_features_; }
  std::int64_t in_features() const { return in_features_; }
  std::string_view kernel_name() const { return kernel_.name; }
  // How many rows a RowSource is asked for at most.
  int rows_at_once() const { return kernel_.rows; }
  // Whether a RowSource may have its rows in such pieces.
  bool takes_pieces_of(std::int64_t elements) const {
    return kernel_.multiply_streamed != nullptr && elements > 0 && elements % kernel_.depth == 0;
  }
  std::size_t packed_bytes() const { return weights_bytes_ + sides_bytes_; }

  // kInt8 only: the scale that run() would give a row, and a row by it, for a RowSource whose rows are
  // ElementType::kInt8 because they share elements.
  float scale_row(const void* row, std::int64_t count, ElementType type) const;
  void quantize_row(const void* row, std::int64_t count, ElementType type, float scale, std::int8_t* target) const;

  // Scratch memory that run() needs for so many rows on so many threads. Not monotonous in the rows.
  std::size_t workspace_bytes(std::int64_t rows, int threads, std::size_t row_scratch_bytes = 0,
                              bool in_pieces = false) const;

  // `workspace`: workspace_bytes(call.rows, parallel.threads) bytes, aligned to 64, of this call alone. Allocates
  // nothing and cannot fail. The output overlaps neither the input nor, except in place, the residual.
  void run(const LinearCall& call, void* workspace, const Parallel& parallel) const;
  // The same with the rows of A from `source`; call.input and its stride are not looked at. The workspace is for
  // source.scratch_bytes.
  void run(const LinearCall& call, const RowSource& source, void* workspace, const Parallel& parallel) const;

 private:
  friend class ProductRun;
  friend class StreamedProduct;
  friend class WinogradRun;

  struct Free {
    void operator()(std::byte* memory) const;
  };
  using Memory = std::unique_ptr<std::byte[], Free>;

  PackedLinear() = default;
  static Memory allocate(std::size_t bytes);
  Status lay_out(const LinearWeights& weights);
  void fill_panel(const LinearWeights& weights, std::int64_t panel);
  void fill_int4_panel(const LinearWeights& weights, std::int64_t panel);
  void fill_sides(const LinearWeights& weights);
  // Rows that must be copied together first are packed once and kept.
  bool is_streamed(std::size_t row_scratch_bytes, bool in_pieces) const {
    return kernel_.multiply_streamed != nullptr && (row_scratch_bytes == 0 || in_pieces);
  }
  // The get() of rows that lie where a LinearCall says; that is its context.
  static void get_rows(const void* context, std::int64_t first, void* scratch, InputRows* rows);
  std::size_t streamed_bytes(std::int64_t rows, int threads, std::size_t row_scratch_bytes) const;
  void run_streamed(const LinearCall& call, const RowSource& source, void* workspace, const Parallel& parallel) const;
  // What belongs to the results from `row` on in one panel of columns; not the tile, the number of rows and their
  // scales.
  FinishedRows finished_rows(const LinearCall& call, std::int64_t row, std::int64_t panel) const;

  LinearForm form_ = LinearForm::kFloat32;
  MatrixKernel kernel_;
  std::int64_t out_features_ = 0;
  std::int64_t in_features_ = 0;
  std::int64_t units_ = 0;   // of K
  std::int64_t panels_ = 0;  // of N
  std::int64_t group_ = 0;   // elements of K with one scale; of int8 weights all
  std::size_t panel_bytes_ = 0;
  std::size_t weights_bytes_ = 0;
  std::size_t sides_bytes_ = 0;
  Memory weights_;
  // One value per padded column, or null; scales of has_scaled_codes() are [panel][K / group][columns]. All in sides_.
  float* bias_ = nullptr;
  float* scale_ = nullptr;
  std::int32_t* offset_ = nullptr;
  Memory sides_;
};

}  // namespace kpt::kernels
