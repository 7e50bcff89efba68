// The header of a .npy file: magic, version, and a Python dictionary with type, order and extents.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

struct NpyHeader {
  DType dtype = DType::kFloat32;
  Dims dims;
  bool fortran_order = false;
  std::size_t bytes = 0;  // of the header itself; the elements follow
};

// Versions 1 to 3. `name` is for messages. Fails with kCorruptData for what is no such header, and with kUnsupported
// for element types that kpt::DType lacks, big endian, object arrays (they are pickles), structures, ranks above
// kMaxRank.
Result<NpyHeader> parse_npy_header(std::span<const std::byte> file, std::string_view name);

// A header of version 1, padded so that the elements start at a multiple of 64. Fails with kUnsupported for types that
// NumPy lacks: bfloat16, the float8 kinds and complex32.
Result<std::string> make_npy_header(DType dtype, const Dims& dims, bool fortran_order);

}  // namespace kpt
