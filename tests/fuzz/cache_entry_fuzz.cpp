// Any bytes as a cache entry: never a crash, and what is accepted is what its header says.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "compile_cache/entry_format.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace cache = kpt::compile_cache;
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const auto header = cache::read_header(file.substr(0, std::min(size, cache::kMaxHeaderBytes)), size);
  if (!header.ok()) return 0;
  const std::string_view payload = file.substr(header->header_bytes);
  if (payload.size() != header->payload_bytes) std::abort();
  if (!cache::check_payload(*header, payload).ok()) return 0;
  if (cache::print_header(header->digest, header->kind, payload) != file.substr(0, header->header_bytes)) std::abort();
  return 0;
}
