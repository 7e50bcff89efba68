// Our own declarations of the PJRT C API: here the head of its function table; pjrt_slots.h names what follows it.
//
// The interface is one exported C function, GetPjrtApi, that returns a table. The table has only ever grown at its end
// since version 0.57; 0.55 to 0.57 rearranged it. A plugin's table is as long as its `struct_size` says, so an entry
// exists only if it ends within that size. Offsets are those of 64-bit Linux.
#pragma once

#include <cstddef>
#include <type_traits>

namespace kpt::pjrt {

struct ApiVersion {
  std::size_t struct_size;
  void* extension_start;
  int major_version;
  int minor_version;
};

// Function pointers follow, eight bytes each.
struct ApiHead {
  std::size_t struct_size;  // of the whole table
  void* extension_start;
  ApiVersion version;
};

static_assert(std::is_standard_layout_v<ApiHead>);
static_assert(sizeof(void*) == 8 && sizeof(int) == 4);
static_assert(offsetof(ApiHead, version) == 16);
static_assert(offsetof(ApiHead, version) + offsetof(ApiVersion, major_version) == 32);
static_assert(offsetof(ApiHead, version) + offsetof(ApiVersion, minor_version) == 36);
static_assert(sizeof(ApiHead) == 40);

using GetApiFunction = const ApiHead* (*)();
constexpr const char* kGetApiName = "GetPjrtApi";

constexpr int kSupportedMajor = 0;
constexpr int kOldestMinor = 57;
// Version 0.57 has 101 entries.
constexpr std::size_t kSmallestTableBytes = sizeof(ApiHead) + 101 * sizeof(void*);
// 0.114 has 138 entries; a table of more than ten thousand is no table.
constexpr std::size_t kLargestTableBytes = sizeof(ApiHead) + 10000 * sizeof(void*);

}  // namespace kpt::pjrt
