#include "validation/last_position.h"

#include <optional>

namespace kpt {

Result<Tensor> take_last_like(const Tensor& tensor, const Dims& dims) {
  Dims taken = tensor.dims();
  if (dims.size() < taken.size()) return tensor;
  std::optional<std::size_t> axis;
  for (std::size_t index = 0; index < taken.size(); ++index) {
    if (dims[index] == taken[index]) continue;
    if (dims[index] != 1 || axis || taken[index] < 1) return tensor;
    axis = index;
  }
  if (!axis) return tensor;
  const std::int64_t offset = tensor.offset() + (taken[*axis] - 1) * tensor.strides()[*axis];
  taken[*axis] = 1;
  KPT_ASSIGN_OR_RETURN(const Tensor view,
                       Tensor::from_buffer(tensor.buffer(), tensor.dtype(), taken, tensor.strides(), offset));
  return view.contiguous_copy();
}

}  // namespace kpt
