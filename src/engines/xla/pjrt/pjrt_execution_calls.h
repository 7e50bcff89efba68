// PJRT's calls about executables and buffers; see pjrt_types.h.
#pragma once

#include "engines/xla/pjrt/pjrt_types.h"

namespace kpt::pjrt::abi {

struct MemoryLayout;  // pjrt_client_calls.h

struct ExecutableDestroyArgs {
  KPT_PJRT_ARGS(kExecutableDestroy)
  Executable* executable;
};

struct ExecutableNumOutputsArgs {
  KPT_PJRT_ARGS(kExecutableNumOutputs)
  Executable* executable;
  std::size_t num_outputs;
};

struct ExecutableGetCompiledMemoryStatsArgs {
  KPT_PJRT_ARGS(kExecutableGetCompiledMemoryStats)
  Executable* executable;
  std::int64_t generated_code_size_in_bytes;
  std::int64_t argument_size_in_bytes;
  std::int64_t output_size_in_bytes;
  std::int64_t alias_size_in_bytes;
  std::int64_t temp_size_in_bytes;
  std::int64_t host_fields[5];
  std::int64_t peak_memory_in_bytes;
  std::int64_t later_fields[4];
};

struct ExecutableSerializeArgs {
  KPT_PJRT_ARGS(kExecutableSerialize)
  const Executable* executable;
  const char* serialized_bytes;
  std::size_t serialized_bytes_size;
  SerializedExecutable* serialized_executable;
  void (*serialized_executable_deleter)(SerializedExecutable*);
};

struct ExecutableDeserializeAndLoadArgs {
  KPT_PJRT_ARGS(kExecutableDeserializeAndLoad)
  Client* client;
  const char* serialized_executable;
  std::size_t serialized_executable_size;
  LoadedExecutable* loaded_executable;
  const char* overridden_serialized_compile_options;
  std::size_t overridden_serialized_compile_options_size;
  void* load_options;
};

struct LoadedExecutableDestroyArgs {
  KPT_PJRT_ARGS(kLoadedExecutableDestroy)
  LoadedExecutable* executable;
};

struct LoadedExecutableGetExecutableArgs {
  KPT_PJRT_ARGS(kLoadedExecutableGetExecutable)
  LoadedExecutable* loaded_executable;
  Executable* executable;
};

struct LoadedExecutableAddressableDevicesArgs {
  KPT_PJRT_ARGS(kLoadedExecutableAddressableDevices)
  LoadedExecutable* executable;
  Device* const* addressable_devices;
  std::size_t num_addressable_devices;
};

struct ExecuteOptions {
  KPT_PJRT_HEAD
  void* send_callbacks;
  void* recv_callbacks;
  std::size_t num_send_ops;
  std::size_t num_recv_ops;
  int launch_id;
  const std::int64_t* non_donatable_input_indices;
  std::size_t num_non_donatable_input_indices;
  void* later_fields[11];  // contexts, callbacks, several slices: not used
};

struct LoadedExecutableExecuteArgs {
  KPT_PJRT_ARGS(kLoadedExecutableExecute)
  LoadedExecutable* executable;
  ExecuteOptions* options;
  Buffer* const* const* argument_lists;  // by device, then by argument
  std::size_t num_devices;
  std::size_t num_args;
  Buffer** const* output_lists;  // ours; filled with buffers that are ours to destroy
  Event** device_complete_events;
  Device* execute_device;  // only for portable executables
};

struct BufferDestroyArgs {
  KPT_PJRT_ARGS(kBufferDestroy)
  Buffer* buffer;
};

struct BufferElementTypeArgs {
  KPT_PJRT_ARGS(kBufferElementType)
  Buffer* buffer;
  BufferType type;
};

struct BufferDimensionsArgs {
  KPT_PJRT_ARGS(kBufferDimensions)
  Buffer* buffer;
  const std::int64_t* dims;
  std::size_t num_dims;
};

struct BufferToHostBufferArgs {
  KPT_PJRT_ARGS(kBufferToHostBuffer)
  Buffer* src;
  MemoryLayout* host_layout;  // null would mean the buffer's own, which need not be row-major
  void* dst;
  std::size_t dst_size;
  Event* event;
};

}  // namespace kpt::pjrt::abi
