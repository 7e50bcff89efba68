#include "artifact/block_table.h"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>

#include "base/crc32c.h"
#include "base/text.h"

namespace kpt::artifact {
namespace {

constexpr std::array<std::byte, kAlignment> kZeros{};

std::uintptr_t address_of(const Tensor& tensor) { return reinterpret_cast<std::uintptr_t>(tensor.data()); }

}  // namespace

Result<std::size_t> BlockTable::add(const Tensor& tensor, std::string_view name) {
  Item item{tensor, {}, 0};
  if (!tensor.defined() || tensor.device() != "cpu" || (tensor.data() == nullptr && tensor.element_count() > 0)) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("'{}' cannot be written to a file: {}", printable(name, 200), tensor.to_string()));
  }
  if (tensor.element_count() > 0) {
    // In the file offsets count elements: a tensor between them is copied, and shares its memory no more.
    if (address_of(tensor) % element_bytes(tensor.dtype()) != 0) {
      KPT_ASSIGN_OR_RETURN(item.tensor, tensor.contiguous_copy());
    }
    std::int64_t last = 0;
    for (std::size_t i = 0; i < item.tensor.dims().size(); ++i) {
      last += (item.tensor.dims()[i] - 1) * item.tensor.strides()[i];
    }
    item.range.begin = address_of(item.tensor);
    item.range.end = item.range.begin + (static_cast<std::size_t>(last) + 1) * element_bytes(tensor.dtype());
  }
  items_.push_back(std::move(item));
  return items_.size() - 1;
}

void BlockTable::lay_out() {
  std::vector<std::size_t> by_address;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (items_[i].range.begin != items_[i].range.end) by_address.push_back(i);
  }
  std::ranges::stable_sort(by_address, {}, [&](std::size_t i) { return items_[i].range.begin; });
  struct Group {
    Range range;
    std::size_t first = 0;  // of its tensors in the order of add()
  };
  std::vector<Group> groups;
  for (const std::size_t i : by_address) {
    Item& item = items_[i];
    // Ranges that only touch stay apart: they may be different allocations.
    if (groups.empty() || item.range.begin >= groups.back().range.end) groups.push_back({item.range, i});
    Group& group = groups.back();
    group.range.end = std::max(group.range.end, item.range.end);
    group.first = std::min(group.first, i);
    item.block = groups.size() - 1;
  }
  // Blocks in the order of their first tensor: where memory happened to lie does not show in the file.
  std::vector<std::size_t> order(groups.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t group) { return groups[group].first; });
  std::vector<std::size_t> place(groups.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = i;
    blocks_.push_back(groups[order[i]].range);
  }
  for (const std::size_t i : by_address) items_[i].block = place[items_[i].block];
}

TensorRecord BlockTable::record(std::size_t tensor) const {
  const Item& item = items_[tensor];
  TensorRecord record;
  record.dtype = item.tensor.dtype();
  record.dims = item.tensor.dims();
  record.strides = item.tensor.strides();
  if (item.range.begin == item.range.end) return record;
  record.block = item.block;
  const std::uintptr_t base = blocks_[item.block].begin / kAlignment * kAlignment;
  record.offset = static_cast<std::int64_t>((item.range.begin - base) / element_bytes(record.dtype));
  return record;
}

std::vector<std::span<const std::byte>> BlockTable::pieces(std::size_t block) const {
  const Range& range = blocks_[block];
  return {std::span(kZeros).first(range.begin % kAlignment),
          // NOLINTNEXTLINE(performance-no-int-to-ptr): ranges are compared and merged as numbers
          std::span(reinterpret_cast<const std::byte*>(range.begin), range.end - range.begin)};
}

EntryCheck BlockTable::check(std::size_t block) const {
  EntryCheck check;
  for (const auto piece : pieces(block)) {
    check.bytes += piece.size();
    check.crc32c = crc32c(piece, check.crc32c);
  }
  return check;
}

}  // namespace kpt::artifact
