#include <array>
#include <string>

#include "kernels/gpu/matrix.h"
#include "kernels/gpu/matrix_product.h"
#include "kernels/gpu/plan_checks.h"

namespace kpt::gpu {
namespace {

constexpr std::string_view kMatrixName = "matrix";

constexpr std::array kWithoutFp8 = {DType::kFloat16, DType::kBFloat16, DType::kInt8};
constexpr std::array kWithFnuz = {DType::kFloat16, DType::kBFloat16, DType::kInt8, DType::kFloat8E4M3FNUZ};
constexpr std::array kWithOcp = {DType::kFloat16, DType::kBFloat16, DType::kInt8, DType::kFloat8E4M3FN};

Status check(const MatrixCall& call) {
  if (!is_kernel_type(call.bias_dtype) || !is_kernel_type(call.output_dtype)) {
    return invalid_call(kMatrixName, "bias and output must be float16, bfloat16 or float32");
  }
  if (call.activation < Activation::kNone || call.activation > Activation::kRelu6) {
    return invalid_call(kMatrixName, "no such activation");
  }
  KPT_RETURN_IF_ERROR(check_sizes(kMatrixName, {call.rows, call.columns}));
  for (const std::int64_t rows : {call.rows, call.columns}) {
    for (const std::int64_t width : {call.depth, call.input_stride, call.weight_stride}) {
      KPT_RETURN_IF_ERROR(check_sizes(kMatrixName, {rows, width}));
    }
  }
  if (call.rows == 0 || call.columns == 0) return {};
  if (call.output == nullptr || (call.depth > 0 && (call.input == nullptr || call.weight == nullptr))) {
    return invalid_call(kMatrixName, "input, weight and output must be given");
  }
  return {};
}

NumberType number_type(DType dtype) {
  if (dtype == DType::kFloat16) return NumberType::kHalf;
  return dtype == DType::kBFloat16 ? NumberType::kBFloat : NumberType::kFloat;
}

}  // namespace

std::span<const DType> matrix_types(MatrixUnit unit) {
  switch (unit) {
    case MatrixUnit::kNone: return {};
    case MatrixUnit::kCdna3: return kWithFnuz;
    case MatrixUnit::kCdna4:
    case MatrixUnit::kRdna4: return kWithOcp;
    case MatrixUnit::kCdna2:
    case MatrixUnit::kRdna3: break;
  }
  return kWithoutFp8;
}

bool has_matrix_type(MatrixUnit unit, DType dtype) {
  const std::span<const DType> types = matrix_types(unit);
  return std::ranges::find(types, dtype) != types.end();
}

DType matrix_fp8_type(MatrixUnit unit) {
  return unit == MatrixUnit::kCdna3 ? DType::kFloat8E4M3FNUZ : DType::kFloat8E4M3FN;
}

std::optional<DType> find_row_type(DType weight, MatrixUnit unit) {
  if (weight != DType::kInt8 && weight != DType::kFloat8E4M3FN) return std::nullopt;
  const DType type = weight == DType::kInt8 ? weight : matrix_fp8_type(unit);
  return has_matrix_type(unit, type) ? std::optional(type) : std::nullopt;
}

Result<Plan> plan_matrix(const MatrixCall& call, const DeviceShape& device) {
  const bool as_weight = device.matrix == MatrixUnit::kCdna3 && call.dtype == DType::kFloat8E4M3FN;
  const DType type = as_weight ? matrix_fp8_type(device.matrix) : call.dtype;
  if (!has_matrix_type(device.matrix, type)) {
    return Status(
        StatusCode::kMatrixUnit,
        fmt::format("matrix: there is no kernel for {} on {}", to_string(call.dtype),
                    device.matrix == MatrixUnit::kNone ? "a device without matrix cores" : unit_name(device.matrix)),
        Vendor::kAmd);
  }
  KPT_RETURN_IF_ERROR(check(call));
  if (call.rows == 0 || call.columns == 0) return Plan{};
  MatrixArgs args{};
  args.input = call.input;
  args.weight = call.weight;
  args.row_scale = call.row_scale;
  args.column_scale = call.column_scale;
  args.bias = call.bias;
  args.residual = call.residual;
  args.output = call.output;
  args.rows = call.rows;
  args.columns = call.columns;
  args.depth = call.depth;
  args.input_stride = call.input_stride;
  args.weight_stride = call.weight_stride;
  args.column_tiles = divide_up(call.columns, kMatrixTile);
  args.input_as_weight = as_weight ? 1 : 0;
  args.scale = type == DType::kFloat8E4M3FNUZ ? (as_weight ? 4.0F : 2.0F) : 1.0F;  // weight_word() says why
  args.activation = call.activation;
  args.bias_type = number_type(call.bias_dtype);
  args.output_type = number_type(call.output_dtype);
  const bool vectors =
      are_multiples({call.depth, call.input_stride, call.weight_stride}, vector_elements(call.dtype)) &&
      are_aligned({call.input, call.weight});
  args.vectors = vectors ? 1 : 0;
  const std::int64_t blocks = divide_up(call.rows, kMatrixTile) * args.column_tiles;
  KPT_RETURN_IF_ERROR(check_blocks(kMatrixName, blocks));
  return Plan{make_launch(fmt::format("matrix_{}_{}", unit_name(device.matrix), type_suffix(type)), blocks, args, 256)};
}

}  // namespace kpt::gpu
