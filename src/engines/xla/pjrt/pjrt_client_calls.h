// PJRT's calls about clients, devices, host memory and compiling; see pjrt_types.h.
#pragma once

#include "engines/xla/pjrt/pjrt_types.h"

namespace kpt::pjrt::abi {

struct ClientCreateArgs {
  KPT_PJRT_ARGS(kClientCreate)
  const NamedValue* create_options;
  std::size_t num_options;
  void* kv_get_callback;  // the callbacks are for several processes; null
  void* kv_get_user_arg;
  void* kv_put_callback;
  void* kv_put_user_arg;
  Client* client;
  void* kv_try_get_callback;
  void* kv_try_get_user_arg;
};

struct ClientDestroyArgs {
  KPT_PJRT_ARGS(kClientDestroy)
  Client* client;
};

struct ClientPlatformNameArgs {
  KPT_PJRT_ARGS(kClientPlatformName)
  Client* client;
  const char* platform_name;
  std::size_t platform_name_size;
};

struct ClientPlatformVersionArgs {
  KPT_PJRT_ARGS(kClientPlatformVersion)
  Client* client;
  const char* platform_version;
  std::size_t platform_version_size;
};

struct ClientAddressableDevicesArgs {
  KPT_PJRT_ARGS(kClientAddressableDevices)
  Client* client;
  Device* const* addressable_devices;  // the client's
  std::size_t num_addressable_devices;
};

struct Program {
  KPT_PJRT_HEAD
  char* code;
  std::size_t code_size;
  const char* format;
  std::size_t format_size;
};

struct ClientCompileArgs {
  KPT_PJRT_ARGS(kClientCompile)
  Client* client;
  const Program* program;
  const char* compile_options;
  std::size_t compile_options_size;
  LoadedExecutable* executable;
};

struct TiledLayout {
  KPT_PJRT_HEAD
  const std::int64_t* minor_to_major;
  std::size_t minor_to_major_size;
  const std::int64_t* tile_dims;
  const std::size_t* tile_dim_sizes;
  std::size_t num_tiles;
};

struct MemoryLayout {
  KPT_PJRT_HEAD
  TiledLayout tiled;  // the interface has a union here; its other member is smaller
  int type;
};

struct ClientBufferFromHostBufferArgs {
  KPT_PJRT_ARGS(kClientBufferFromHostBuffer)
  Client* client;
  const void* data;
  BufferType type;
  const std::int64_t* dims;
  std::size_t num_dims;
  const std::int64_t* byte_strides;
  std::size_t num_byte_strides;
  int host_buffer_semantics;
  Device* device;
  Memory* memory;
  MemoryLayout* device_layout;
  Event* done_with_host_buffer;
  Buffer* buffer;
};

struct DeviceDescriptionIdArgs {
  KPT_PJRT_ARGS(kDeviceDescriptionId)
  DeviceDescription* device_description;
  int id;
};

struct DeviceDescriptionKindArgs {
  KPT_PJRT_ARGS(kDeviceDescriptionKind)
  DeviceDescription* device_description;
  const char* device_kind;
  std::size_t device_kind_size;
};

struct DeviceGetDescriptionArgs {
  KPT_PJRT_ARGS(kDeviceGetDescription)
  Device* device;
  DeviceDescription* device_description;
};

struct DeviceMemoryStatsArgs {
  KPT_PJRT_ARGS(kDeviceMemoryStats)
  Device* device;
  std::int64_t bytes_in_use;
  std::int64_t peak_bytes_in_use;
  bool peak_bytes_in_use_is_set;
  std::int64_t num_allocs;
  bool num_allocs_is_set;
  std::int64_t largest_alloc_size;
  bool largest_alloc_size_is_set;
  std::int64_t bytes_limit;
  bool bytes_limit_is_set;
  std::int64_t later_fields[14];
};

}  // namespace kpt::pjrt::abi
