// Our declarations against the header that the CPU plugin's package brings, where CMake found it.
#include <cstddef>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "engines/xla/pjrt/pjrt_client_calls.h"
#include "engines/xla/pjrt/pjrt_execution_calls.h"
#include "engines/xla/pjrt/pjrt_topology_calls.h"

#if __has_include("pjrt_c_api.h")
#include "pjrt_c_api.h"

namespace kpt::pjrt {
namespace {

// The known part must be laid out alike; ours may go on where a later version appended.
#define KPT_SAME_FIELD(ours, theirs, field)                                              \
  EXPECT_EQ(offsetof(abi::ours, field), offsetof(theirs, field)) << #theirs "::" #field; \
  EXPECT_EQ(sizeof(abi::ours::field), sizeof(theirs::field)) << #theirs "::" #field
#define KPT_AT_LEAST(ours, theirs) EXPECT_GE(sizeof(abi::ours), sizeof(theirs)) << #theirs
#define KPT_SAME_SIZE(ours, theirs) EXPECT_EQ(sizeof(abi::ours), sizeof(theirs)) << #theirs

#define KPT_EACH_1(o, t, a) KPT_SAME_FIELD(o, t, a)
#define KPT_EACH_2(o, t, a, b) \
  KPT_EACH_1(o, t, a);         \
  KPT_SAME_FIELD(o, t, b)
#define KPT_EACH_3(o, t, a, b, c) \
  KPT_EACH_2(o, t, a, b);         \
  KPT_SAME_FIELD(o, t, c)
#define KPT_EACH_4(o, t, a, b, c, d) \
  KPT_EACH_3(o, t, a, b, c);         \
  KPT_SAME_FIELD(o, t, d)
#define KPT_EACH_5(o, t, a, b, c, d, e) \
  KPT_EACH_4(o, t, a, b, c, d);         \
  KPT_SAME_FIELD(o, t, e)
#define KPT_EACH_6(o, t, a, b, c, d, e, f) \
  KPT_EACH_5(o, t, a, b, c, d, e);         \
  KPT_SAME_FIELD(o, t, f)
#define KPT_EACH_7(o, t, a, b, c, d, e, f, g) \
  KPT_EACH_6(o, t, a, b, c, d, e, f);         \
  KPT_SAME_FIELD(o, t, g)

TEST(PjrtHeader, ErrorsEventsAndNamedValuesAreLaidOutAsInTheHeader) {
  KPT_SAME_SIZE(NamedValue, PJRT_NamedValue);
  KPT_EACH_7(NamedValue, PJRT_NamedValue, struct_size, extension_start, name, name_size, type, int64_value, value_size);
  KPT_EACH_4(NamedValue, PJRT_NamedValue, string_value, int64_array_value, float_value, bool_value);
  KPT_SAME_SIZE(ErrorDestroyArgs, PJRT_Error_Destroy_Args);
  KPT_EACH_1(ErrorDestroyArgs, PJRT_Error_Destroy_Args, error);
  KPT_SAME_SIZE(ErrorMessageArgs, PJRT_Error_Message_Args);
  KPT_EACH_3(ErrorMessageArgs, PJRT_Error_Message_Args, error, message, message_size);
  KPT_SAME_SIZE(ErrorGetCodeArgs, PJRT_Error_GetCode_Args);
  KPT_EACH_2(ErrorGetCodeArgs, PJRT_Error_GetCode_Args, error, code);
  KPT_SAME_SIZE(PluginInitializeArgs, PJRT_Plugin_Initialize_Args);
  KPT_SAME_SIZE(PluginAttributesArgs, PJRT_Plugin_Attributes_Args);
  KPT_EACH_2(PluginAttributesArgs, PJRT_Plugin_Attributes_Args, attributes, num_attributes);
  KPT_SAME_SIZE(EventDestroyArgs, PJRT_Event_Destroy_Args);
  KPT_EACH_1(EventDestroyArgs, PJRT_Event_Destroy_Args, event);
  KPT_SAME_SIZE(EventIsReadyArgs, PJRT_Event_IsReady_Args);
  KPT_EACH_2(EventIsReadyArgs, PJRT_Event_IsReady_Args, event, is_ready);
  KPT_SAME_SIZE(EventAwaitArgs, PJRT_Event_Await_Args);
  KPT_EACH_1(EventAwaitArgs, PJRT_Event_Await_Args, event);
}

TEST(PjrtHeader, ClientAndDeviceCallsAreLaidOutAsInTheHeader) {
  KPT_SAME_SIZE(ClientCreateArgs, PJRT_Client_Create_Args);
  KPT_EACH_6(ClientCreateArgs, PJRT_Client_Create_Args, create_options, num_options, kv_get_callback, kv_get_user_arg,
             kv_put_callback, kv_put_user_arg);
  KPT_EACH_3(ClientCreateArgs, PJRT_Client_Create_Args, client, kv_try_get_callback, kv_try_get_user_arg);
  KPT_SAME_SIZE(ClientDestroyArgs, PJRT_Client_Destroy_Args);
  KPT_EACH_1(ClientDestroyArgs, PJRT_Client_Destroy_Args, client);
  KPT_SAME_SIZE(ClientPlatformNameArgs, PJRT_Client_PlatformName_Args);
  KPT_EACH_3(ClientPlatformNameArgs, PJRT_Client_PlatformName_Args, client, platform_name, platform_name_size);
  KPT_SAME_SIZE(ClientPlatformVersionArgs, PJRT_Client_PlatformVersion_Args);
  KPT_EACH_3(ClientPlatformVersionArgs, PJRT_Client_PlatformVersion_Args, client, platform_version,
             platform_version_size);
  KPT_SAME_SIZE(ClientAddressableDevicesArgs, PJRT_Client_AddressableDevices_Args);
  KPT_EACH_3(ClientAddressableDevicesArgs, PJRT_Client_AddressableDevices_Args, client, addressable_devices,
             num_addressable_devices);
  KPT_SAME_SIZE(DeviceDescriptionIdArgs, PJRT_DeviceDescription_Id_Args);
  KPT_EACH_2(DeviceDescriptionIdArgs, PJRT_DeviceDescription_Id_Args, device_description, id);
  KPT_SAME_SIZE(DeviceDescriptionKindArgs, PJRT_DeviceDescription_Kind_Args);
  KPT_EACH_3(DeviceDescriptionKindArgs, PJRT_DeviceDescription_Kind_Args, device_description, device_kind,
             device_kind_size);
  KPT_SAME_SIZE(DeviceGetDescriptionArgs, PJRT_Device_GetDescription_Args);
  KPT_EACH_2(DeviceGetDescriptionArgs, PJRT_Device_GetDescription_Args, device, device_description);
  KPT_AT_LEAST(DeviceMemoryStatsArgs, PJRT_Device_MemoryStats_Args);
  KPT_EACH_7(DeviceMemoryStatsArgs, PJRT_Device_MemoryStats_Args, device, bytes_in_use, peak_bytes_in_use,
             peak_bytes_in_use_is_set, num_allocs, bytes_limit, bytes_limit_is_set);
}

TEST(PjrtHeader, CompilingAndHostBuffersAreLaidOutAsInTheHeader) {
  KPT_SAME_SIZE(Program, PJRT_Program);
  KPT_EACH_4(Program, PJRT_Program, code, code_size, format, format_size);
  KPT_SAME_SIZE(ClientCompileArgs, PJRT_Client_Compile_Args);
  KPT_EACH_5(ClientCompileArgs, PJRT_Client_Compile_Args, client, program, compile_options, compile_options_size,
             executable);
  KPT_SAME_SIZE(TiledLayout, PJRT_Buffer_MemoryLayout_Tiled);
  KPT_EACH_5(TiledLayout, PJRT_Buffer_MemoryLayout_Tiled, minor_to_major, minor_to_major_size, tile_dims,
             tile_dim_sizes, num_tiles);
  KPT_SAME_SIZE(MemoryLayout, PJRT_Buffer_MemoryLayout);
  KPT_EACH_2(MemoryLayout, PJRT_Buffer_MemoryLayout, tiled, type);
  KPT_SAME_SIZE(ClientBufferFromHostBufferArgs, PJRT_Client_BufferFromHostBuffer_Args);
  KPT_EACH_7(ClientBufferFromHostBufferArgs, PJRT_Client_BufferFromHostBuffer_Args, client, data, type, dims, num_dims,
             byte_strides, num_byte_strides);
  KPT_EACH_6(ClientBufferFromHostBufferArgs, PJRT_Client_BufferFromHostBuffer_Args, host_buffer_semantics, device,
             memory, device_layout, done_with_host_buffer, buffer);
}

TEST(PjrtHeader, ExecutablesAreLaidOutAsInTheHeader) {
  KPT_SAME_SIZE(ExecutableDestroyArgs, PJRT_Executable_Destroy_Args);
  KPT_EACH_1(ExecutableDestroyArgs, PJRT_Executable_Destroy_Args, executable);
  KPT_SAME_SIZE(ExecutableNumOutputsArgs, PJRT_Executable_NumOutputs_Args);
  KPT_EACH_2(ExecutableNumOutputsArgs, PJRT_Executable_NumOutputs_Args, executable, num_outputs);
  KPT_AT_LEAST(ExecutableGetCompiledMemoryStatsArgs, PJRT_Executable_GetCompiledMemoryStats_Args);
  KPT_EACH_7(ExecutableGetCompiledMemoryStatsArgs, PJRT_Executable_GetCompiledMemoryStats_Args, executable,
             generated_code_size_in_bytes, argument_size_in_bytes, output_size_in_bytes, alias_size_in_bytes,
             temp_size_in_bytes, peak_memory_in_bytes);
  KPT_SAME_SIZE(ExecutableSerializeArgs, PJRT_Executable_Serialize_Args);
  KPT_EACH_5(ExecutableSerializeArgs, PJRT_Executable_Serialize_Args, executable, serialized_bytes,
             serialized_bytes_size, serialized_executable, serialized_executable_deleter);
  KPT_AT_LEAST(ExecutableDeserializeAndLoadArgs, PJRT_Executable_DeserializeAndLoad_Args);
  KPT_EACH_6(ExecutableDeserializeAndLoadArgs, PJRT_Executable_DeserializeAndLoad_Args, client, serialized_executable,
             serialized_executable_size, loaded_executable, overridden_serialized_compile_options,
             overridden_serialized_compile_options_size);
  KPT_SAME_SIZE(LoadedExecutableDestroyArgs, PJRT_LoadedExecutable_Destroy_Args);
  KPT_EACH_1(LoadedExecutableDestroyArgs, PJRT_LoadedExecutable_Destroy_Args, executable);
  KPT_SAME_SIZE(LoadedExecutableGetExecutableArgs, PJRT_LoadedExecutable_GetExecutable_Args);
  KPT_EACH_2(LoadedExecutableGetExecutableArgs, PJRT_LoadedExecutable_GetExecutable_Args, loaded_executable,
             executable);
  KPT_SAME_SIZE(LoadedExecutableAddressableDevicesArgs, PJRT_LoadedExecutable_AddressableDevices_Args);
  KPT_EACH_3(LoadedExecutableAddressableDevicesArgs, PJRT_LoadedExecutable_AddressableDevices_Args, executable,
             addressable_devices, num_addressable_devices);
  KPT_AT_LEAST(ExecuteOptions, PJRT_ExecuteOptions);
  KPT_EACH_7(ExecuteOptions, PJRT_ExecuteOptions, send_callbacks, recv_callbacks, num_send_ops, num_recv_ops, launch_id,
             non_donatable_input_indices, num_non_donatable_input_indices);
  KPT_SAME_SIZE(LoadedExecutableExecuteArgs, PJRT_LoadedExecutable_Execute_Args);
  KPT_EACH_7(LoadedExecutableExecuteArgs, PJRT_LoadedExecutable_Execute_Args, executable, options, argument_lists,
             num_devices, num_args, output_lists, device_complete_events);
  KPT_EACH_1(LoadedExecutableExecuteArgs, PJRT_LoadedExecutable_Execute_Args, execute_device);
}

TEST(PjrtHeader, BuffersAreLaidOutAsInTheHeader) {
  KPT_SAME_SIZE(BufferDestroyArgs, PJRT_Buffer_Destroy_Args);
  KPT_EACH_1(BufferDestroyArgs, PJRT_Buffer_Destroy_Args, buffer);
  KPT_SAME_SIZE(BufferElementTypeArgs, PJRT_Buffer_ElementType_Args);
  KPT_EACH_2(BufferElementTypeArgs, PJRT_Buffer_ElementType_Args, buffer, type);
  KPT_SAME_SIZE(BufferDimensionsArgs, PJRT_Buffer_Dimensions_Args);
  KPT_EACH_3(BufferDimensionsArgs, PJRT_Buffer_Dimensions_Args, buffer, dims, num_dims);
  KPT_SAME_SIZE(BufferToHostBufferArgs, PJRT_Buffer_ToHostBuffer_Args);
  KPT_EACH_5(BufferToHostBufferArgs, PJRT_Buffer_ToHostBuffer_Args, src, host_layout, dst, dst_size, event);
}

TEST(PjrtHeader, TopologiesAndFiguresAreLaidOutAsInTheHeader) {
  KPT_SAME_SIZE(TopologyDescriptionCreateArgs, PJRT_TopologyDescription_Create_Args);
  KPT_EACH_5(TopologyDescriptionCreateArgs, PJRT_TopologyDescription_Create_Args, topology_name, topology_name_size,
             create_options, num_options, topology);
  KPT_SAME_SIZE(TopologyDescriptionDestroyArgs, PJRT_TopologyDescription_Destroy_Args);
  KPT_EACH_1(TopologyDescriptionDestroyArgs, PJRT_TopologyDescription_Destroy_Args, topology);
  KPT_SAME_SIZE(TopologyDescriptionPlatformVersionArgs, PJRT_TopologyDescription_PlatformVersion_Args);
  KPT_EACH_3(TopologyDescriptionPlatformVersionArgs, PJRT_TopologyDescription_PlatformVersion_Args, topology,
             platform_version, platform_version_size);
  KPT_SAME_SIZE(TopologyDescriptionGetDeviceDescriptionsArgs, PJRT_TopologyDescription_GetDeviceDescriptions_Args);
  KPT_EACH_3(TopologyDescriptionGetDeviceDescriptionsArgs, PJRT_TopologyDescription_GetDeviceDescriptions_Args,
             topology, descriptions, num_descriptions);
  KPT_SAME_SIZE(CompileArgs, PJRT_Compile_Args);
  KPT_EACH_6(CompileArgs, PJRT_Compile_Args, topology, program, compile_options, compile_options_size, client,
             executable);
  KPT_SAME_SIZE(ExecutableSizeOfGeneratedCodeInBytesArgs, PJRT_Executable_SizeOfGeneratedCodeInBytes_Args);
  KPT_EACH_2(ExecutableSizeOfGeneratedCodeInBytesArgs, PJRT_Executable_SizeOfGeneratedCodeInBytes_Args, executable,
             size_in_bytes);
  KPT_SAME_SIZE(ExecutableGetCostAnalysisArgs, PJRT_Executable_GetCostAnalysis_Args);
  KPT_EACH_3(ExecutableGetCostAnalysisArgs, PJRT_Executable_GetCostAnalysis_Args, executable, num_properties,
             properties);
}

TEST(PjrtHeader, EveryEntryOfTheHeadersTableHasOurPosition) {
  EXPECT_EQ(offsetof(PJRT_Api, pjrt_api_version), offsetof(ApiHead, version));
  EXPECT_EQ(offsetof(PJRT_Api, PJRT_Error_Destroy), sizeof(ApiHead));
#define KPT_SLOT(name)                                                                 \
  {                                                                                    \
    "PJRT_" #name, (offsetof(PJRT_Api, PJRT_##name) - sizeof(ApiHead)) / sizeof(void*) \
  }
  const std::pair<std::string_view, std::size_t> known[] = {
      KPT_SLOT(Error_Destroy),
      KPT_SLOT(Error_Message),
      KPT_SLOT(Error_GetCode),
      KPT_SLOT(Plugin_Initialize),
      KPT_SLOT(Plugin_Attributes),
      KPT_SLOT(Event_Destroy),
      KPT_SLOT(Event_IsReady),
      KPT_SLOT(Event_Await),
      KPT_SLOT(Client_Create),
      KPT_SLOT(Client_Destroy),
      KPT_SLOT(Client_PlatformName),
      KPT_SLOT(Client_PlatformVersion),
      KPT_SLOT(Client_AddressableDevices),
      KPT_SLOT(Client_Compile),
      KPT_SLOT(Client_BufferFromHostBuffer),
      KPT_SLOT(DeviceDescription_Id),
      KPT_SLOT(DeviceDescription_Kind),
      KPT_SLOT(Device_GetDescription),
      KPT_SLOT(Device_MemoryStats),
      KPT_SLOT(Executable_Destroy),
      KPT_SLOT(Executable_NumOutputs),
      KPT_SLOT(Executable_Serialize),
      KPT_SLOT(Executable_GetCompiledMemoryStats),
      KPT_SLOT(Executable_DeserializeAndLoad),
      KPT_SLOT(LoadedExecutable_Destroy),
      KPT_SLOT(LoadedExecutable_GetExecutable),
      KPT_SLOT(LoadedExecutable_AddressableDevices),
      KPT_SLOT(LoadedExecutable_Execute),
      KPT_SLOT(Buffer_Destroy),
      KPT_SLOT(Buffer_ElementType),
      KPT_SLOT(Buffer_Dimensions),
      KPT_SLOT(Buffer_ToHostBuffer),
      KPT_SLOT(Buffer_CopyRawToHost),
      KPT_SLOT(Executable_SizeOfGeneratedCodeInBytes),
      KPT_SLOT(Executable_GetCostAnalysis),
      KPT_SLOT(TopologyDescription_Create),
      KPT_SLOT(TopologyDescription_Destroy),
      KPT_SLOT(TopologyDescription_PlatformVersion),
      KPT_SLOT(TopologyDescription_GetDeviceDescriptions),
      KPT_SLOT(Compile),
  };
  for (const auto& [name, position] : known) EXPECT_EQ(kSlotNames[position], name);
}

TEST(PjrtHeader, NumbersOfEnumsAreTheHeaders) {
  EXPECT_EQ(abi::kTiledLayout, PJRT_Buffer_MemoryLayout_Type_Tiled);
  EXPECT_EQ(abi::kImmutableOnlyDuringCall, PJRT_HostBufferSemantics_kImmutableOnlyDuringCall);
  EXPECT_EQ(abi::kImmutableUntilTransferCompletes, PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes);
  EXPECT_EQ(abi::kImmutableZeroCopy, PJRT_HostBufferSemantics_kImmutableZeroCopy);
  EXPECT_EQ(abi::kNamedString, PJRT_NamedValue_kString);
  EXPECT_EQ(abi::kNamedInt64, PJRT_NamedValue_kInt64);
  EXPECT_EQ(abi::kNamedInt64List, PJRT_NamedValue_kInt64List);
  EXPECT_EQ(abi::kNamedFloat, PJRT_NamedValue_kFloat);
  EXPECT_EQ(abi::kNamedBool, PJRT_NamedValue_kBool);
}

}  // namespace
}  // namespace kpt::pjrt

#else

TEST(PjrtHeader, IsNotHere) {
  GTEST_SKIP() << "pjrt_c_api.h was not found: the Python environment (KPT_PYTHON) has no package xla-cpu-pjrt";
}

#endif
