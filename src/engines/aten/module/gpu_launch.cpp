#include "engines/aten/module/gpu_launch.h"

#include "engines/aten/module/own_nodes.h"

namespace kpt::aten {
namespace {

// Whether all axes but the last step at one distance, which is the result; 0 when they do not.
std::int64_t find_row_stride(const at::Tensor& tensor) {
  const std::int64_t rank = tensor.dim();
  const std::int64_t width = tensor.size(rank - 1);
  if (width > 1 && tensor.stride(rank - 1) != 1) return 0;
  std::int64_t stride = width;
  std::int64_t next = -1;  // what the stride of the next outer axis must be
  for (std::int64_t axis = rank - 2; axis >= 0; --axis) {
    if (tensor.size(axis) == 1) continue;
    if (next < 0) {
      stride = tensor.stride(axis);
    } else if (tensor.stride(axis) != next) {
      return 0;
    }
    next = tensor.stride(axis) * tensor.size(axis);
  }
  return stride >= width ? stride : 0;
}

}  // namespace

DenseRows dense_rows(const at::Tensor& tensor) {
  OwnCall::require(tensor.dim() > 0, "an argument has no axis");
  DenseRows rows;
  rows.owner = tensor;
  rows.width = tensor.size(-1);
  rows.rows = rows.width == 0 ? 0 : tensor.numel() / rows.width;
  rows.stride = rows.rows <= 1 ? rows.width : find_row_stride(tensor);
  const bool dense = rows.width <= 1 || tensor.stride(-1) == 1;
  if (rows.stride == 0 || !dense) {
    rows.owner = tensor.contiguous();
    rows.stride = rows.width;
  }
  return rows;
}

}  // namespace kpt::aten
