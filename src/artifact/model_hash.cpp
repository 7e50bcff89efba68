#include "artifact/model_hash.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "artifact/block_table.h"
#include "base/build_info.h"
#include "base/parallel.h"
#include "base/sha256.h"
#include "ir/text.h"

namespace kpt {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t kLeafBytes = std::size_t{1} << 20;

std::string hash_bytes(Bytes bytes) { return sha256_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()}); }

// In order, however many threads there are.
std::vector<std::string> hash_leaves(const std::vector<Bytes>& leaves) {
  constexpr std::size_t kWorthThreads = 16;
  std::vector<std::string> digests(leaves.size());
  for_each_stretch(leaves.size(), leaves.size() < kWorthThreads ? kWorthThreads : 1,
                   [&](std::size_t begin, std::size_t end) {
                     for (std::size_t i = begin; i < end; ++i) digests[i] = hash_bytes(leaves[i]);
                   });
  return digests;
}

void add_text(Sha256& hash, std::string_view text) {
  hash.update(fmt::format("{} ", text.size()));
  hash.update(text);
}

}  // namespace

Result<std::string> hash_model(const ir::Graph& graph, const Weights& weights) {
  artifact::BlockTable table;
  for (const auto& [name, tensor] : weights) KPT_RETURN_IF_ERROR(table.add(tensor, name).status());
  table.lay_out();

  Sha256 hash;
  add_text(hash, "kpt model 1");
  add_text(hash, ir::print_graph(graph));
  std::size_t index = 0;
  for (const auto& [name, tensor] : weights) {
    const artifact::TensorRecord record = table.record(index++);
    // From the block's own first byte: where memory happened to lie must not show.
    const std::size_t before = record.block ? table.pieces(*record.block).front().size() : 0;
    const auto byte_offset = static_cast<std::size_t>(record.offset) * element_bytes(record.dtype) - before;
    add_text(hash, name);
    add_text(hash,
             fmt::format("{} {} {} {} {}", record.block ? fmt::format("{}", *record.block) : "none",
                         to_string(record.dtype), record.dims.to_string(), record.strides.to_string(), byte_offset));
  }
  std::vector<Bytes> leaves;
  for (std::size_t block = 0; block < table.block_count(); ++block) {
    Bytes content = table.pieces(block).back();
    add_text(hash, fmt::format("{}", content.size()));
    for (; !content.empty(); content = content.subspan(std::min(kLeafBytes, content.size()))) {
      leaves.push_back(content.first(std::min(kLeafBytes, content.size())));
    }
  }
  for (const std::string& digest : hash_leaves(leaves)) hash.update(digest);
  return hash.hex_digest();
}

std::string this_producer() { return fmt::format("kpt {} ({})", build_info().version, build_info().commit); }

}  // namespace kpt
