// Our own declarations of the argument structures of PJRT's C API, as far as this tree calls it: here what all calls
// share, and errors and events; pjrt_client_calls.h and pjrt_execution_calls.h hold the rest. Field names are the
// interface's own, so that pjrt_header_test.cpp can hold every offset against the real header.
//
// Every call is `Error* f(Args*)`; null is success (Error_Destroy and Error_Message return nothing). Each structure
// begins with its size and a list of extensions, which we leave empty. Structures have only ever grown at their end
// since version 0.57; a plugin refuses one that is smaller than it knows and accepts a larger one, so Call<Args> adds a
// zeroed tail. Offsets are those of 64-bit Linux.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engines/xla/pjrt/pjrt_abi.h"
#include "engines/xla/pjrt/pjrt_slots.h"

namespace kpt::pjrt::abi {

struct Error;
struct Event;
struct Client;
struct Device;
struct DeviceDescription;
struct Memory;
struct Executable;
struct LoadedExecutable;
struct SerializedExecutable;
struct Buffer;

// Not type safe by nature: what a plugin writes into an enum may be any int.
using ErrorCode = int;
using BufferType = int;

inline constexpr int kTiledLayout = 0;
inline constexpr int kImmutableOnlyDuringCall = 0;
inline constexpr int kImmutableUntilTransferCompletes = 1;
inline constexpr int kImmutableZeroCopy = 2;
inline constexpr int kNamedString = 0;
inline constexpr int kNamedInt64 = 1;
inline constexpr int kNamedInt64List = 2;
inline constexpr int kNamedFloat = 3;
inline constexpr int kNamedBool = 4;

#define KPT_PJRT_HEAD      \
  std::size_t struct_size; \
  void* extension_start;
#define KPT_PJRT_ARGS(slot)                 \
  static constexpr Slot kSlot = Slot::slot; \
  KPT_PJRT_HEAD

struct NamedValue {
  KPT_PJRT_HEAD
  const char* name;  // not closed by a NUL
  std::size_t name_size;
  int type;
  union {
    const char* string_value;
    std::int64_t int64_value;
    const std::int64_t* int64_array_value;
    float float_value;
    bool bool_value;
  };
  std::size_t value_size;  // of a string or list, else 1
};

struct ErrorDestroyArgs {
  KPT_PJRT_ARGS(kErrorDestroy)
  Error* error;
};

struct ErrorMessageArgs {
  KPT_PJRT_ARGS(kErrorMessage)
  const Error* error;
  const char* message;
  std::size_t message_size;
};

struct ErrorGetCodeArgs {
  KPT_PJRT_ARGS(kErrorGetCode)
  const Error* error;
  ErrorCode code;
};

struct PluginInitializeArgs {
  KPT_PJRT_ARGS(kPluginInitialize)
};

struct PluginAttributesArgs {
  KPT_PJRT_ARGS(kPluginAttributes)
  const NamedValue* attributes;
  std::size_t num_attributes;
};

struct EventDestroyArgs {
  KPT_PJRT_ARGS(kEventDestroy)
  Event* event;
};

struct EventIsReadyArgs {
  KPT_PJRT_ARGS(kEventIsReady)
  Event* event;
  bool is_ready;
};

struct EventAwaitArgs {
  KPT_PJRT_ARGS(kEventAwait)
  Event* event;
};

// Zeroed arguments with their size set and room for what a later version may append.
template <typename Args>
struct Call : Args {
  Call() : Args{} { this->struct_size = sizeof(Call); }
  std::byte spare[64] = {};
};

}  // namespace kpt::pjrt::abi
