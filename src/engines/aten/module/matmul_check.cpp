#include "engines/aten/module/matmul_check.h"

#include <cmath>
#include <iterator>
#include <random>
#include <string_view>

#include <ATen/core/dispatch/Dispatcher.h>

#include "engines/aten/module/guarded_call.h"

namespace kpt::aten {
namespace {

at::Tensor dispatch_matmul(const at::Tensor& a, const at::Tensor& b) {
  const c10::OperatorHandle matmul = c10::Dispatcher::singleton().findSchemaOrThrow("aten::matmul", "");
  torch::jit::Stack stack{a, b};
  matmul.callBoxed(stack);
  if (stack.size() != 1 || !stack[0].isTensor()) {
    throw CallFailure(CallCode::kFailed, "aten::matmul through the dispatcher did not give one tensor");
  }
  return stack[0].toTensor();
}

// The fp64 product in plain loops: independent of every BLAS, so that a wrong one cannot agree with itself. Summed from
// the last term to the first: in the usual order it would round exactly as a BLAS does. `a` and `b` are contiguous fp64
// matrices on the CPU.
at::Tensor multiply_exactly(const at::Tensor& a, const at::Tensor& b) {
  const std::int64_t rows = a.size(0);
  const std::int64_t inner = a.size(1);
  const std::int64_t columns = b.size(1);
  at::Tensor product = at::zeros({rows, columns}, at::kDouble);
  const auto* left = a.const_data_ptr<double>();
  const auto* right = b.const_data_ptr<double>();
  auto* out = product.mutable_data_ptr<double>();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t k = inner - 1; k >= 0; --k) {
      const double factor = left[row * inner + k];
      for (std::int64_t column = 0; column < columns; ++column) {
        out[row * columns + column] += factor * right[k * columns + column];
      }
    }
  }
  return product;
}

at::Tensor random_matrix(std::mt19937_64& engine, std::int64_t rows, std::int64_t columns) {
  std::normal_distribution<double> normal;
  at::Tensor matrix = at::empty({rows, columns}, at::kDouble);
  auto* values = matrix.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < rows * columns; ++i) values[i] = normal(engine);
  return matrix;
}

std::string_view name_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble: return "float64";
    case at::kFloat: return "float32";
    case at::kHalf: return "float16";
    case at::kBFloat16: return "bfloat16";
    default: throw CallFailure(CallCode::kInvalidArgument, "the self check knows floating-point types only");
  }
}

double tolerance_of(at::ScalarType dtype, std::int64_t inner) {
  const auto terms = static_cast<double>(inner);
  switch (dtype) {
    // The plain loops round as much as the product under test.
    case at::kDouble: return 2 * terms * 0x1p-53;
    case at::kFloat: return terms * 0x1p-24;
    // fp32 sums, the result rounded to the short type; libraries may also round a few partial sums to it.
    case at::kHalf: return 4 * 0x1p-11 + terms * 0x1p-24;
    default: return 4 * 0x1p-9 + terms * 0x1p-24;
  }
}

MatmulError check_dtype(const at::Tensor& a, const at::Tensor& b, at::Device device, at::ScalarType dtype) {
  const at::Tensor rounded_a = a.to(dtype);
  const at::Tensor rounded_b = b.to(dtype);
  const at::Tensor computed = dispatch_matmul(rounded_a.to(device), rounded_b.to(device)).to(at::kCPU).to(at::kDouble);
  const at::Tensor exact_a = rounded_a.to(at::kDouble).contiguous();
  const at::Tensor exact_b = rounded_b.to(at::kDouble).contiguous();
  const at::Tensor exact = multiply_exactly(exact_a, exact_b);
  const at::Tensor scale = multiply_exactly(exact_a.abs(), exact_b.abs());
  MatmulError error{};
  copy_text(name_of(dtype), error.dtype);
  error.relative_error = ((computed - exact).abs() / scale).max().item<double>();
  error.tolerance = tolerance_of(dtype, a.size(1));
  return error;
}

}  // namespace

SelfCheck check_matmul(std::uint64_t seed, at::Device device, std::initializer_list<at::ScalarType> dtypes) {
  SelfCheck check{};
  if (dtypes.size() > std::size(check.errors)) {
    throw CallFailure(CallCode::kInvalidArgument, "the self check takes at most four types");
  }
  const c10::InferenceMode no_gradients;
  std::mt19937_64 engine(seed);
  // Uneven sizes reach the edges of blocked kernels; this range takes a few milliseconds.
  std::uniform_int_distribution<std::int32_t> extent(33, 160);
  check.seed = seed;
  check.rows = extent(engine);
  check.inner = extent(engine);
  check.columns = extent(engine);
  const at::Tensor a = random_matrix(engine, check.rows, check.inner);
  const at::Tensor b = random_matrix(engine, check.inner, check.columns);
  for (const at::ScalarType dtype : dtypes) check.errors[check.count++] = check_dtype(a, b, device, dtype);
  return check;
}

}  // namespace kpt::aten
