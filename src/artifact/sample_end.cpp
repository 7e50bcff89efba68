#include "artifact/sample_end.h"

#include <algorithm>

namespace kpt {

Dims shorten(const Dims& dims, std::size_t element_bytes, std::size_t most_bytes) {
  Dims taken = dims;
  while (!taken.empty()) {
    double bytes = static_cast<double>(element_bytes);
    std::size_t longest = taken.size() - 1;
    for (std::size_t axis = taken.size(); axis-- > 0;) {
      bytes *= static_cast<double>(taken[axis]);
      if (axis + 1 == taken.size()) continue;
      if (taken[axis] > 1 && (longest + 1 == taken.size() || taken[axis] >= taken[longest])) longest = axis;
    }
    if (bytes <= static_cast<double>(most_bytes) || taken[longest] <= 1) break;
    const double fitting = static_cast<double>(taken[longest]) * (static_cast<double>(most_bytes) / bytes);
    taken[longest] = std::clamp<std::int64_t>(static_cast<std::int64_t>(fitting), 1, taken[longest] - 1);
  }
  return taken;
}

Result<Tensor> take_end(const Tensor& tensor, const Dims& dims) {
  if (dims == tensor.dims() || dims.size() != tensor.dims().size()) return tensor;
  std::int64_t offset = tensor.offset();
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] > tensor.dims()[axis]) return tensor;
    if (dims[axis] > 0) offset += (tensor.dims()[axis] - dims[axis]) * tensor.strides()[axis];
  }
  KPT_ASSIGN_OR_RETURN(const Tensor view,
                       Tensor::from_buffer(tensor.buffer(), tensor.dtype(), dims, tensor.strides(), offset));
  return view.contiguous_copy();
}

}  // namespace kpt
