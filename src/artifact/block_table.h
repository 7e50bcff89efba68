// Which memory of a set of tensors goes into a file, and where in it each tensor then lies.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "artifact/manifest.h"
#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt::artifact {

// Add all tensors, then lay_out(), then ask. Memory that several tensors use is one block; memory that none uses is in
// no block. The tensors' memory must stay as it is while the table lives.
class BlockTable {
 public:
  // Returns the tensor's number. `name` is for messages. Fails with kInvalidArgument for a tensor that the CPU cannot
  // read.
  Result<std::size_t> add(const Tensor& tensor, std::string_view name);

  void lay_out();

  TensorRecord record(std::size_t tensor) const;
  std::size_t block_count() const { return blocks_.size(); }
  // The content in pieces. Addresses in a block are those in memory modulo kAlignment: what a kernel may assume about
  // a weight's alignment still holds in the file.
  std::vector<std::span<const std::byte>> pieces(std::size_t block) const;
  EntryCheck check(std::size_t block) const;

 private:
  // Addresses as numbers: the memory of different tensors is compared.
  struct Range {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
  };
  struct Item {
    Tensor tensor;
    Range range;  // empty: no elements
    std::size_t block = 0;
  };
  std::vector<Item> items_;
  std::vector<Range> blocks_;
};

}  // namespace kpt::artifact
