// The safetensors format: a JSON header with name, type, extents and place of each tensor, then their bytes.
//
//   u64 little endian: length of the header │ {"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}, …} │ data
//
// Everything in a file is untrusted. Refused with kCorruptData: a header that is cut short, above 100 MB or no such
// JSON; names that occur twice; tensors that overlap, leave holes or reach beyond the file; byte counts that do not fit
// type and extents. Refused with kUnsupported, by name: element types that kpt::DType lacks (F4, F6, …).
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "archive/mapped_file.h"
#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

// The free text under "__metadata__".
using SafetensorsMetadata = std::map<std::string, std::string>;

// The tensors in the order of the header. They point into the mapping and are read only; a tensor whose bytes are not
// aligned for its element type (the format allows that) is copied. `metadata` may be null.
Result<std::vector<NamedTensor>> read_safetensors(const std::shared_ptr<const MappedFile>& file,
                                                  SafetensorsMetadata* metadata = nullptr);

// Writes tensor by tensor into a file that appears whole or not at all. The header keeps the given order; the bytes are
// laid out by falling alignment, so that every tensor can be used in place. Fails with kInvalidArgument for equal
// names, the name "__metadata__", names that are not UTF-8 and tensors that the CPU cannot read; with kUnsupported for
// complex32 and complex128, which the format lacks.
Status write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                         const SafetensorsMetadata& metadata = {});

}  // namespace kpt
