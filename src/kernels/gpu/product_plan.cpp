#include <optional>
#include <string>

#include "kernels/gpu/plan_checks.h"
#include "kernels/gpu/product.h"
#include "kernels/gpu/product_kernels.h"

namespace kpt::gpu {
namespace {

constexpr std::string_view kProductName = "product";

// The one type beside float32 that the tensors have; float32 when there is none.
Result<DType> kernel_type(const ProductCall& call) {
  DType type = DType::kFloat32;
  for (const auto& [data, dtype] :
       {std::pair(call.left.data, call.left.dtype), std::pair(call.right.data, call.right.dtype),
        std::pair(call.bias, call.bias_dtype), std::pair(static_cast<const void*>(call.output), call.output_dtype)}) {
    if (data == nullptr || dtype == DType::kFloat32) continue;
    if (!is_kernel_type(dtype)) return invalid_call(kProductName, fmt::format("no kernel for {}", to_string(dtype)));
    if (type != DType::kFloat32 && type != dtype) {
      return invalid_call(kProductName, "the tensors are of more than one type beside float32");
    }
    type = dtype;
  }
  return type;
}

Status check(const ProductCall& call) {
  if (call.activation < Activation::kNone || call.activation > Activation::kRelu6) {
    return invalid_call(kProductName, "no such activation");
  }
  const std::int64_t widest = std::max({call.depth, call.columns, std::int64_t{1}});
  KPT_RETURN_IF_ERROR(
      check_sizes(kProductName, {call.batches[0], call.batches[1], call.batches[2], call.rows, widest}));
  KPT_RETURN_IF_ERROR(check_sizes(kProductName, {call.columns, call.depth}));
  if (call.output == nullptr || (call.depth > 0 && (call.left.data == nullptr || call.right.data == nullptr))) {
    return invalid_call(kProductName, "left, right and output must be given");
  }
  return {};
}

ProductOperand operand_of(const ProductSide& side) {
  return {side.data,
          {side.batch_strides[0], side.batch_strides[1], side.batch_strides[2]},
          side.line_stride,
          side.depth_stride};
}

}  // namespace

Result<Plan> plan_product(const ProductCall& call, const DeviceShape& /*device*/) {
  const std::int64_t batches = call.batches[0] * call.batches[1] * call.batches[2];
  if (batches == 0 || call.rows == 0 || call.columns == 0) return Plan{};
  KPT_RETURN_IF_ERROR(check(call));
  KPT_ASSIGN_OR_RETURN(const DType type, kernel_type(call));
  const auto is_float = [](DType dtype) { return dtype == DType::kFloat32 ? 1 : 0; };
  ProductArgs args{};
  args.left = operand_of(call.left);
  args.right = operand_of(call.right);
  args.bias = call.bias;
  args.residual = call.residual;
  args.output = call.output;
  for (std::size_t axis = 0; axis < 3; ++axis) args.output_batch_strides[axis] = call.output_batch_strides[axis];
  args.output_row_stride = call.output_row_stride;
  args.batches_1 = call.batches[1];
  args.batches_2 = call.batches[2];
  args.rows = call.rows;
  args.columns = call.columns;
  args.depth = call.depth;
  args.row_tiles = divide_up(call.rows, kProductTile);
  args.column_tiles = divide_up(call.columns, kProductTile);
  args.scale = call.scale;
  args.activation = call.activation;
  args.left_is_float = is_float(call.left.dtype);
  args.right_is_float = is_float(call.right.dtype);
  args.bias_is_float = is_float(call.bias_dtype);
  args.output_is_float = is_float(call.output_dtype);
  KPT_RETURN_IF_ERROR(check_sizes(kProductName, {batches, args.row_tiles, args.column_tiles}));
  const std::int64_t blocks = batches * args.row_tiles * args.column_tiles;
  KPT_RETURN_IF_ERROR(check_blocks(kProductName, blocks));
  return Plan{make_launch("product_" + std::string(type_suffix(type)), blocks, args, kProductThreads)};
}

}  // namespace kpt::gpu
