#include <string>

#include "kernels/gpu/matrix.h"
#include "kernels/gpu/matrix_kernels.h"
#include "kernels/gpu/plan_checks.h"

namespace kpt::gpu {
namespace {

Status check(const MatrixCall& call) {
  constexpr std::string_view kName = "matrix";
  if (call.dtype != DType::kFloat16 && call.dtype != DType::kBFloat16) {
    return invalid_call(kName, fmt::format("no kernel for {}", to_string(call.dtype)));
  }
  if (call.bias_dtype != call.dtype && call.bias_dtype != DType::kFloat32) {
    return invalid_call(kName, "the bias must be of the input's type or float32");
  }
  if (call.activation < Activation::kNone || call.activation > Activation::kRelu6) {
    return invalid_call(kName, "no such activation");
  }
  KPT_RETURN_IF_ERROR(check_sizes(kName, {call.rows, call.columns}));
  for (const std::int64_t rows : {call.rows, call.columns}) {
    for (const std::int64_t width : {call.depth, call.input_stride, call.weight_stride}) {
      KPT_RETURN_IF_ERROR(check_sizes(kName, {rows, width}));
    }
  }
  if (call.rows == 0 || call.columns == 0) return {};
  if (call.output == nullptr || (call.depth > 0 && (call.input == nullptr || call.weight == nullptr))) {
    return invalid_call(kName, "input, weight and output must be given");
  }
  return {};
}

}  // namespace

Result<Plan> plan_matrix(const MatrixCall& call, const DeviceShape& device) {
  if (device.wave != 64) {
    return Status(StatusCode::kUnsupported, "matrix: the kernel is for wavefronts of 64 lanes, this device has 32");
  }
  KPT_RETURN_IF_ERROR(check(call));
  if (call.rows == 0 || call.columns == 0) return Plan{};
  MatrixArgs args{};
  args.input = call.input;
  args.weight = call.weight;
  args.bias = call.bias;
  args.output = call.output;
  args.rows = call.rows;
  args.columns = call.columns;
  args.depth = call.depth;
  args.input_stride = call.input_stride;
  args.weight_stride = call.weight_stride;
  args.column_tiles = divide_up(call.columns, kMatrixTile);
  args.activation = call.activation;
  args.bias_is_float = call.bias_dtype == DType::kFloat32 ? 1 : 0;
  const bool vectors =
      are_multiples({call.depth, call.input_stride, call.weight_stride}, 8) && are_aligned({call.input, call.weight});
  args.vectors = vectors ? 1 : 0;
  const std::int64_t blocks = divide_up(call.rows, kMatrixTile) * args.column_tiles;
  KPT_RETURN_IF_ERROR(check_blocks("matrix", blocks));
  return Plan{make_launch("matrix_mfma_" + std::string(type_suffix(call.dtype)), blocks, args, 256)};
}

}  // namespace kpt::gpu
