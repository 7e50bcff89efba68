// A PJRT plugin that does what the variable FAKE_PJRT says, each time it is asked:
//   "version MAJOR MINOR"   that version, with a table of plausible size (also the default, as 0.81)
//   "struct_size BYTES"     version 0.81 with that table size
//   "null"                  no table
//   "crash", "abort", "hang"
//   "needs_skip_mds"        hangs unless TPU_SKIP_MDS_QUERY is set, as libtpu does away from Google's cloud
// Built with FAKE_PJRT_WITHOUT_ENTRY it is a library without GetPjrtApi.
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

namespace {

// Written down here once more, so that a slip in the engine's own declarations shows.
struct Table {
  std::uint64_t struct_size = 984;
  void* extension_start = nullptr;
  std::uint64_t version_struct_size = 24;
  void* version_extension_start = nullptr;
  std::int32_t major_version = 0;
  std::int32_t minor_version = 81;
  void* functions[200] = {};
};

[[noreturn]] void hang() {
  while (true) ::pause();
}

// NOLINTBEGIN(concurrency-mt-unsafe): asked by one thread only.
const Table* answer() {
  static Table table;
  table = Table{};
  const char* orders = std::getenv("FAKE_PJRT");
  std::istringstream words(orders != nullptr ? orders : "");
  std::string order;
  words >> order;
  if (order == "version") words >> table.major_version >> table.minor_version;
  if (order == "struct_size") words >> table.struct_size;
  if (order == "null") return nullptr;
  if (order == "crash") std::raise(SIGSEGV);
  if (order == "abort") std::abort();
  if (order == "hang") hang();
  if (order == "needs_skip_mds" && std::getenv("TPU_SKIP_MDS_QUERY") == nullptr) hang();
  return &table;
}
// NOLINTEND(concurrency-mt-unsafe)

}  // namespace

#ifdef FAKE_PJRT_WITHOUT_ENTRY
extern "C" [[gnu::visibility("default")]] const void* get_another_api() { return answer(); }
#else
extern "C" [[gnu::visibility("default")]] const void* GetPjrtApi() { return answer(); }
#endif
