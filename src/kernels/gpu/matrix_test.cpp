#include "kernels/gpu/matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/gpu_testing.h"
#include "kernels/gpu/matrix_lane.h"
#include "kpt/errors.h"

namespace kpt::gpu::testing {
namespace {

class Matrix : public KernelTest {
 protected:
  void check_case(MatrixUnit unit, DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t depth);
};

void Matrix::check_case(MatrixUnit unit, DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  SCOPED_TRACE(std::string(unit_name(unit)) + " " + std::string(to_string(dtype)) + " " + std::to_string(rows) + "x" +
               std::to_string(columns) + "x" + std::to_string(depth));
  const bool narrow = element_bytes(dtype) == 1;
  MatrixCall call;
  call.dtype = dtype;
  call.output_dtype = narrow ? draw_type() : pick({dtype, DType::kFloat32});
  call.bias_dtype = draw_type();
  call.activation = pick({Activation::kNone, Activation::kRelu});
  call.rows = rows;
  call.columns = columns;
  call.depth = depth;
  const std::int64_t whole = 16 / static_cast<std::int64_t>(element_bytes(dtype));
  call.input_stride = depth + pick<std::int64_t>({0, whole, 1});
  call.weight_stride = depth + pick<std::int64_t>({0, whole, 3});
  const bool is_fp8 = dtype == DType::kFloat8E4M3FN || dtype == DType::kFloat8E4M3FNUZ;
  Buffer input(*device_, dtype, (rows - 1) * call.input_stride + depth, draw(0, 3) == 0 ? 1 : 0);
  Buffer weight(*device_, is_fp8 ? DType::kFloat8E4M3FN : dtype, (columns - 1) * call.weight_stride + depth);
  Buffer bias(*device_, call.bias_dtype, columns);
  Buffer row_scale(*device_, DType::kFloat32, rows);
  Buffer column_scale(*device_, DType::kFloat32, columns);
  Buffer residual(*device_, call.output_dtype, rows * columns);
  Buffer output(*device_, call.output_dtype, rows * columns);
  call.input = input.fill(random_, narrow ? 40 : 1).data();
  call.weight = weight.fill(random_, narrow ? 40 : 0.3).data();
  if (is_fp8) weight.set(draw(0, weight.count() - 1), -0.0);  // NaN for hardware that knows only the other kind
  bias.fill(random_);
  residual.fill(random_);
  if (draw(0, 2) != 0) call.bias = bias.data();
  if (draw(0, 1) != 0) call.residual = residual.data();
  if (narrow) call.row_scale = row_scale.fill(random_, 0.01, 0.05).floats();
  if (narrow) call.column_scale = column_scale.fill(random_, 0.01, 0.05).floats();
  call.output = output.data();
  run(plan_matrix(call, with(unit)));
  if (HasFatalFailure()) return;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      double sum = 0;
      double size = 0;
      for (std::int64_t k = 0; k < depth; ++k) {
        const double product = input.get(row * call.input_stride + k) * weight.get(column * call.weight_stride + k);
        sum += product;
        size += std::abs(product);
      }
      if (narrow) sum *= row_scale.get(row) * column_scale.get(column);
      if (narrow) size *= std::abs(row_scale.get(row) * column_scale.get(column));
      for (const double added : {call.bias == nullptr ? 0.0 : bias.get(column),
                                 call.residual == nullptr ? 0.0 : residual.get(row * columns + column)}) {
        sum += added;
        size += std::abs(added);
      }
      if (call.activation == Activation::kRelu) sum = std::max(sum, 0.0);
      ASSERT_TRUE(is_near(output.get(row * columns + column), sum, call.output_dtype, 1e-6 * size))
          << row << ", " << column;
    }
  }
}

TEST_P(Matrix, RandomShapesTailsAndStrides) {
  for (const MatrixUnit unit : units()) {
    for (const DType dtype : matrix_types(unit)) {
      check_case(unit, dtype, 1, 1, 1);
      check_case(unit, dtype, 130, 20, 160);
      check_case(unit, dtype, draw(1, 140), draw(1, 140), draw(1, 160));
      if (HasFatalFailure()) return;
    }
  }
}

// Wrong rows, columns or depths show as wrong digits, not as rounding.
TEST_P(Matrix, EveryProductMeetsItsPartner) {
  for (const MatrixUnit unit : units()) {
    const std::int64_t size = 48;
    Buffer input(*device_, DType::kFloat16, size * size);
    Buffer weight(*device_, DType::kFloat16, size * size);
    Buffer output(*device_, DType::kFloat16, size * size);
    for (std::int64_t i = 0; i < size * size; ++i) input.set(i, i % size == (i / size * 7 + 3) % size ? 1 : 0);
    for (std::int64_t i = 0; i < size * size; ++i) weight.set(i, static_cast<double>(i % 2039));
    MatrixCall call;
    call.input = input.data();
    call.weight = weight.data();
    call.output = output.data();
    call.rows = call.columns = call.depth = call.input_stride = call.weight_stride = size;
    run(plan_matrix(call, with(unit)));
    for (std::int64_t i = 0; i < size * size; ++i) {
      const std::int64_t k = (i / size * 7 + 3) % size;
      ASSERT_EQ(output.get(i), weight.get(i % size * size + k)) << unit_name(unit) << " " << i;
    }
  }
}

// The number of a code of float8_e4m3fn, by its definition: no infinities, one NaN of each sign.
double ocp_number(int code) {
  const int exponent = code >> 3 & 15;
  const int mantissa = code & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<double>::quiet_NaN();
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);  // bias 7, 3 bits behind
  return code < 128 ? magnitude : -magnitude;
}

// Stored as OCP codes, whichever flavour the instruction multiplies: -0, NaN and what FNUZ reads as another number.
TEST_P(Matrix, EveryCodeOfAStoredWeightOrInputIsItsNumber) {
  for (const MatrixUnit unit : units()) {
    const DType own = matrix_fp8_type(unit);
    if (std::ranges::find(matrix_types(unit), own) == matrix_types(unit).end()) continue;
    for (const bool of_input : {false, true}) {
      const std::int64_t depth = draw(1, 40);
      Buffer codes(*device_, DType::kFloat8E4M3FN, 256 * depth);
      Buffer ones(*device_, of_input ? DType::kFloat8E4M3FN : pick({own, DType::kFloat8E4M3FN}), depth * depth);
      Buffer output(*device_, DType::kFloat32, 256 * depth);
      std::memset(codes.data(), 0, static_cast<std::size_t>(256 * depth));
      for (int code = 0; code < 256; ++code) {
        static_cast<std::uint8_t*>(codes.data())[code * depth + code % depth] = static_cast<std::uint8_t>(code);
      }
      for (std::int64_t i = 0; i < depth * depth; ++i) ones.set(i, i / depth == i % depth ? 1 : 0);
      MatrixCall call;
      call.dtype = of_input || ones.type() == DType::kFloat8E4M3FN ? DType::kFloat8E4M3FN : own;
      call.input = of_input ? codes.data() : ones.data();
      call.weight = of_input ? ones.data() : codes.data();
      call.output = output.data();
      call.output_dtype = DType::kFloat32;
      call.rows = of_input ? 256 : depth;
      call.columns = of_input ? depth : 256;
      call.depth = call.input_stride = call.weight_stride = depth;
      run(plan_matrix(call, with(unit)));
      for (int code = 0; code < 256; ++code) {
        const std::int64_t k = code % depth;
        const double got = output.get(of_input ? code * depth + k : k * 256 + code);
        const double wanted = ocp_number(code);
        ASSERT_TRUE(std::isnan(wanted) ? std::isnan(got) : got == wanted)
            << unit_name(unit) << (of_input ? " input" : " weight") << " code " << code << ": " << got << " instead of "
            << wanted << ", depth " << depth;
      }
    }
  }
}

// Kernel and emulation share these, so they are held against numbers from AMD's matrix instruction calculator.
TEST(MatrixLayouts, RowsOfResultsAreTheHardwares) {
  EXPECT_EQ(CdnaLayout::row_of(0, 3), 3);
  EXPECT_EQ(CdnaLayout::row_of(17, 0), 4);
  EXPECT_EQ(CdnaLayout::row_of(63, 2), 14);
  EXPECT_EQ(Rdna3Layout::row_of(5, 1), 2);
  EXPECT_EQ(Rdna3Layout::row_of(16, 0), 1);
  EXPECT_EQ(Rdna3Layout::row_of(31, 7), 15);
  EXPECT_EQ(Rdna4Layout::row_of(5, 1), 1);
  EXPECT_EQ(Rdna4Layout::row_of(16, 0), 8);
  EXPECT_EQ(Rdna4Layout::row_of(31, 6), 14);
}

TEST_P(Matrix, BadCallsAreRefused) {
  MatrixCall call;
  EXPECT_EQ(plan_matrix(call, with(MatrixUnit::kNone)).status().message(),
            "matrix: there is no kernel for float16 on a device without matrix cores");
  EXPECT_TRUE(plan_matrix(call, with(MatrixUnit::kCdna3))->empty());
  call.rows = call.columns = 1;
  EXPECT_EQ(plan_matrix(call, with(MatrixUnit::kRdna3)).status().message(),
            "matrix: input, weight and output must be given");
  call.output_dtype = DType::kInt8;
  EXPECT_EQ(plan_matrix(call, with(MatrixUnit::kRdna3)).status().message(),
            "matrix: bias and output must be float16, bfloat16 or float32");
  // FP8 is the unit's own kind, and CDNA2 and RDNA3 have none.
  call.dtype = DType::kFloat8E4M3FN;
  for (const MatrixUnit unit : {MatrixUnit::kCdna2, MatrixUnit::kRdna3}) {
    const Status status = plan_matrix(call, with(unit)).status();
    EXPECT_EQ(status.code(), StatusCode::kMatrixUnit);
    EXPECT_THROW(throw_status(status), AmdMatrixCoreError);
  }
  call.dtype = DType::kFloat8E4M3FNUZ;
  EXPECT_EQ(plan_matrix(call, with(MatrixUnit::kCdna4)).status().message(),
            "matrix: there is no kernel for float8_e4m3fnuz on cdna4");
}

KPT_KERNEL_TESTS(Matrix);

}  // namespace
}  // namespace kpt::gpu::testing
