// Random tensors and comparisons for the tests of this folder.
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "archive/mapped_file.h"
#include "kpt/tensor.h"
#include "support/tree_paths.h"

namespace kpt::testing {

inline constexpr DType kAllDTypes[] = {
#define KPT_LIST_DTYPE(enumerator, name, bytes) DType::enumerator,
    KPT_DTYPES(KPT_LIST_DTYPE)
#undef KPT_LIST_DTYPE
};

// A seed that the failure message shows: SCOPED_TRACE(seed).
inline std::uint64_t draw_seed() { return (std::uint64_t{std::random_device{}()} << 32U) | std::random_device{}(); }

// Rank 0 to 4, extents 0 to 6, any bits; for bool only 0 and 1.
inline Tensor random_tensor(std::mt19937_64& random, DType dtype) {
  Dims dims;
  for (std::size_t rank = random() % 5; dims.size() < rank;) {
    dims.push_back(random() % 8 == 0 ? 0 : static_cast<std::int64_t>(1 + random() % 6));
  }
  Tensor tensor = Tensor::empty(dtype, dims).value();
  auto* bytes = static_cast<unsigned char*>(tensor.data());
  for (std::size_t i = 0; i < tensor.bytes(); ++i) {
    bytes[i] = static_cast<unsigned char>(dtype == DType::kBool ? random() % 2 : random());
  }
  return tensor;
}

// The same tensor with its first two extents exchanged, so not contiguous unless it is small.
inline Tensor transposed(const Tensor& tensor) {
  if (tensor.dims().size() < 2) return tensor;
  Dims dims = tensor.dims();
  Dims strides = tensor.strides();
  std::swap(dims[0], dims[1]);
  std::swap(strides[0], strides[1]);
  return Tensor::from_buffer(tensor.buffer(), tensor.dtype(), dims, strides, tensor.offset()).value();
}

inline std::string bytes_as_text(const Tensor& tensor) {
  const Tensor dense = tensor.contiguous_copy().value();
  return dense.bytes() == 0 ? std::string() : std::string(static_cast<const char*>(dense.data()), dense.bytes());
}

inline void expect_same(const Tensor& actual, const Tensor& expected) {
  EXPECT_EQ(actual.dtype(), expected.dtype());
  EXPECT_EQ(actual.dims(), expected.dims()) << actual.to_string() << " and " << expected.to_string();
  EXPECT_TRUE(bytes_as_text(actual) == bytes_as_text(expected)) << actual.to_string();
}

inline bool lies_in(const Tensor& tensor, const MappedFile& file) {
  const auto* address = static_cast<const std::byte*>(tensor.data());
  return address >= file.bytes().data() && address <= file.bytes().data() + file.bytes().size();
}

// Without the flushes of write_file_atomically(), which cost tests of hundreds of files seconds.
inline void write_plain_file(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

inline std::filesystem::path test_data(const std::string& name) {
  return std::filesystem::path(source_dir()) / "src/tensor_files/test_data" / name;
}

}  // namespace kpt::testing
