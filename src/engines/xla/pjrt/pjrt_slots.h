// The entries of PJRT's function table by name, in the order of the table (version 0.110 and later have them all).
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace kpt::pjrt {

// X(enumerator, the interface's own name).
#define KPT_PJRT_SLOTS(X)                                                                                              \
  X(kErrorDestroy, "PJRT_Error_Destroy")                                                                               \
  X(kErrorMessage, "PJRT_Error_Message")                                                                               \
  X(kErrorGetCode, "PJRT_Error_GetCode")                                                                               \
  X(kPluginInitialize, "PJRT_Plugin_Initialize")                                                                       \
  X(kPluginAttributes, "PJRT_Plugin_Attributes")                                                                       \
  X(kEventDestroy, "PJRT_Event_Destroy")                                                                               \
  X(kEventIsReady, "PJRT_Event_IsReady")                                                                               \
  X(kEventError, "PJRT_Event_Error")                                                                                   \
  X(kEventAwait, "PJRT_Event_Await")                                                                                   \
  X(kEventOnReady, "PJRT_Event_OnReady")                                                                               \
  X(kClientCreate, "PJRT_Client_Create")                                                                               \
  X(kClientDestroy, "PJRT_Client_Destroy")                                                                             \
  X(kClientPlatformName, "PJRT_Client_PlatformName")                                                                   \
  X(kClientProcessIndex, "PJRT_Client_ProcessIndex")                                                                   \
  X(kClientPlatformVersion, "PJRT_Client_PlatformVersion")                                                             \
  X(kClientDevices, "PJRT_Client_Devices")                                                                             \
  X(kClientAddressableDevices, "PJRT_Client_AddressableDevices")                                                       \
  X(kClientLookupDevice, "PJRT_Client_LookupDevice")                                                                   \
  X(kClientLookupAddressableDevice, "PJRT_Client_LookupAddressableDevice")                                             \
  X(kClientAddressableMemories, "PJRT_Client_AddressableMemories")                                                     \
  X(kClientCompile, "PJRT_Client_Compile")                                                                             \
  X(kClientDefaultDeviceAssignment, "PJRT_Client_DefaultDeviceAssignment")                                             \
  X(kClientBufferFromHostBuffer, "PJRT_Client_BufferFromHostBuffer")                                                   \
  X(kDeviceDescriptionId, "PJRT_DeviceDescription_Id")                                                                 \
  X(kDeviceDescriptionProcessIndex, "PJRT_DeviceDescription_ProcessIndex")                                             \
  X(kDeviceDescriptionAttributes, "PJRT_DeviceDescription_Attributes")                                                 \
  X(kDeviceDescriptionKind, "PJRT_DeviceDescription_Kind")                                                             \
  X(kDeviceDescriptionDebugString, "PJRT_DeviceDescription_DebugString")                                               \
  X(kDeviceDescriptionToString, "PJRT_DeviceDescription_ToString")                                                     \
  X(kDeviceGetDescription, "PJRT_Device_GetDescription")                                                               \
  X(kDeviceIsAddressable, "PJRT_Device_IsAddressable")                                                                 \
  X(kDeviceLocalHardwareId, "PJRT_Device_LocalHardwareId")                                                             \
  X(kDeviceAddressableMemories, "PJRT_Device_AddressableMemories")                                                     \
  X(kDeviceDefaultMemory, "PJRT_Device_DefaultMemory")                                                                 \
  X(kDeviceMemoryStats, "PJRT_Device_MemoryStats")                                                                     \
  X(kMemoryId, "PJRT_Memory_Id")                                                                                       \
  X(kMemoryKind, "PJRT_Memory_Kind")                                                                                   \
  X(kMemoryDebugString, "PJRT_Memory_DebugString")                                                                     \
  X(kMemoryToString, "PJRT_Memory_ToString")                                                                           \
  X(kMemoryAddressableByDevices, "PJRT_Memory_AddressableByDevices")                                                   \
  X(kExecutableDestroy, "PJRT_Executable_Destroy")                                                                     \
  X(kExecutableName, "PJRT_Executable_Name")                                                                           \
  X(kExecutableNumReplicas, "PJRT_Executable_NumReplicas")                                                             \
  X(kExecutableNumPartitions, "PJRT_Executable_NumPartitions")                                                         \
  X(kExecutableNumOutputs, "PJRT_Executable_NumOutputs")                                                               \
  X(kExecutableSizeOfGeneratedCodeInBytes, "PJRT_Executable_SizeOfGeneratedCodeInBytes")                               \
  X(kExecutableGetCostAnalysis, "PJRT_Executable_GetCostAnalysis")                                                     \
  X(kExecutableOutputMemoryKinds, "PJRT_Executable_OutputMemoryKinds")                                                 \
  X(kExecutableOptimizedProgram, "PJRT_Executable_OptimizedProgram")                                                   \
  X(kExecutableSerialize, "PJRT_Executable_Serialize")                                                                 \
  X(kLoadedExecutableDestroy, "PJRT_LoadedExecutable_Destroy")                                                         \
  X(kLoadedExecutableGetExecutable, "PJRT_LoadedExecutable_GetExecutable")                                             \
  X(kLoadedExecutableAddressableDevices, "PJRT_LoadedExecutable_AddressableDevices")                                   \
  X(kLoadedExecutableDelete, "PJRT_LoadedExecutable_Delete")                                                           \
  X(kLoadedExecutableIsDeleted, "PJRT_LoadedExecutable_IsDeleted")                                                     \
  X(kLoadedExecutableExecute, "PJRT_LoadedExecutable_Execute")                                                         \
  X(kExecutableDeserializeAndLoad, "PJRT_Executable_DeserializeAndLoad")                                               \
  X(kLoadedExecutableFingerprint, "PJRT_LoadedExecutable_Fingerprint")                                                 \
  X(kBufferDestroy, "PJRT_Buffer_Destroy")                                                                             \
  X(kBufferElementType, "PJRT_Buffer_ElementType")                                                                     \
  X(kBufferDimensions, "PJRT_Buffer_Dimensions")                                                                       \
  X(kBufferUnpaddedDimensions, "PJRT_Buffer_UnpaddedDimensions")                                                       \
  X(kBufferDynamicDimensionIndices, "PJRT_Buffer_DynamicDimensionIndices")                                             \
  X(kBufferGetMemoryLayout, "PJRT_Buffer_GetMemoryLayout")                                                             \
  X(kBufferOnDeviceSizeInBytes, "PJRT_Buffer_OnDeviceSizeInBytes")                                                     \
  X(kBufferDevice, "PJRT_Buffer_Device")                                                                               \
  X(kBufferMemory, "PJRT_Buffer_Memory")                                                                               \
  X(kBufferDelete, "PJRT_Buffer_Delete")                                                                               \
  X(kBufferIsDeleted, "PJRT_Buffer_IsDeleted")                                                                         \
  X(kBufferCopyToDevice, "PJRT_Buffer_CopyToDevice")                                                                   \
  X(kBufferToHostBuffer, "PJRT_Buffer_ToHostBuffer")                                                                   \
  X(kBufferIsOnCpu, "PJRT_Buffer_IsOnCpu")                                                                             \
  X(kBufferReadyEvent, "PJRT_Buffer_ReadyEvent")                                                                       \
  X(kBufferUnsafePointer, "PJRT_Buffer_UnsafePointer")                                                                 \
  X(kBufferIncreaseExternalReferenceCount, "PJRT_Buffer_IncreaseExternalReferenceCount")                               \
  X(kBufferDecreaseExternalReferenceCount, "PJRT_Buffer_DecreaseExternalReferenceCount")                               \
  X(kBufferOpaqueDeviceMemoryDataPointer, "PJRT_Buffer_OpaqueDeviceMemoryDataPointer")                                 \
  X(kCopyToDeviceStreamDestroy, "PJRT_CopyToDeviceStream_Destroy")                                                     \
  X(kCopyToDeviceStreamAddChunk, "PJRT_CopyToDeviceStream_AddChunk")                                                   \
  X(kCopyToDeviceStreamTotalBytes, "PJRT_CopyToDeviceStream_TotalBytes")                                               \
  X(kCopyToDeviceStreamGranuleSize, "PJRT_CopyToDeviceStream_GranuleSize")                                             \
  X(kCopyToDeviceStreamCurrentBytes, "PJRT_CopyToDeviceStream_CurrentBytes")                                           \
  X(kTopologyDescriptionCreate, "PJRT_TopologyDescription_Create")                                                     \
  X(kTopologyDescriptionDestroy, "PJRT_TopologyDescription_Destroy")                                                   \
  X(kTopologyDescriptionPlatformName, "PJRT_TopologyDescription_PlatformName")                                         \
  X(kTopologyDescriptionPlatformVersion, "PJRT_TopologyDescription_PlatformVersion")                                   \
  X(kTopologyDescriptionGetDeviceDescriptions, "PJRT_TopologyDescription_GetDeviceDescriptions")                       \
  X(kTopologyDescriptionSerialize, "PJRT_TopologyDescription_Serialize")                                               \
  X(kTopologyDescriptionAttributes, "PJRT_TopologyDescription_Attributes")                                             \
  X(kCompile, "PJRT_Compile")                                                                                          \
  X(kExecutableOutputElementTypes, "PJRT_Executable_OutputElementTypes")                                               \
  X(kExecutableOutputDimensions, "PJRT_Executable_OutputDimensions")                                                   \
  X(kBufferCopyToMemory, "PJRT_Buffer_CopyToMemory")                                                                   \
  X(kClientCreateViewOfDeviceBuffer, "PJRT_Client_CreateViewOfDeviceBuffer")                                           \
  X(kExecutableFingerprint, "PJRT_Executable_Fingerprint")                                                             \
  X(kClientTopologyDescription, "PJRT_Client_TopologyDescription")                                                     \
  X(kExecutableGetCompiledMemoryStats, "PJRT_Executable_GetCompiledMemoryStats")                                       \
  X(kMemoryKindId, "PJRT_Memory_Kind_Id")                                                                              \
  X(kExecuteContextCreate, "PJRT_ExecuteContext_Create")                                                               \
  X(kExecuteContextDestroy, "PJRT_ExecuteContext_Destroy")                                                             \
  X(kBufferCopyRawToHost, "PJRT_Buffer_CopyRawToHost")                                                                 \
  X(kAsyncHostToDeviceTransferManagerDestroy, "PJRT_AsyncHostToDeviceTransferManager_Destroy")                         \
  X(kAsyncHostToDeviceTransferManagerTransferData, "PJRT_AsyncHostToDeviceTransferManager_TransferData")               \
  X(kClientCreateBuffersForAsyncHostToDevice, "PJRT_Client_CreateBuffersForAsyncHostToDevice")                         \
  X(kAsyncHostToDeviceTransferManagerRetrieveBuffer, "PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer")           \
  X(kAsyncHostToDeviceTransferManagerDevice, "PJRT_AsyncHostToDeviceTransferManager_Device")                           \
  X(kAsyncHostToDeviceTransferManagerBufferCount, "PJRT_AsyncHostToDeviceTransferManager_BufferCount")                 \
  X(kAsyncHostToDeviceTransferManagerBufferSize, "PJRT_AsyncHostToDeviceTransferManager_BufferSize")                   \
  X(kAsyncHostToDeviceTransferManagerSetBufferError, "PJRT_AsyncHostToDeviceTransferManager_SetBufferError")           \
  X(kAsyncHostToDeviceTransferManagerAddMetadata, "PJRT_AsyncHostToDeviceTransferManager_AddMetadata")                 \
  X(kClientDmaMap, "PJRT_Client_DmaMap")                                                                               \
  X(kClientDmaUnmap, "PJRT_Client_DmaUnmap")                                                                           \
  X(kClientCreateUninitializedBuffer, "PJRT_Client_CreateUninitializedBuffer")                                         \
  X(kClientUpdateGlobalProcessInfo, "PJRT_Client_UpdateGlobalProcessInfo")                                             \
  X(kTopologyDescriptionDeserialize, "PJRT_TopologyDescription_Deserialize")                                           \
  X(kClientCreateAliasBuffer, "PJRT_Client_CreateAliasBuffer")                                                         \
  X(kClientFulfillAliasBuffer, "PJRT_Client_FulfillAliasBuffer")                                                       \
  X(kLoadedExecutableGetDeviceAssignment, "PJRT_LoadedExecutable_GetDeviceAssignment")                                 \
  X(kClientCreateErrorBuffer, "PJRT_Client_CreateErrorBuffer")                                                         \
  X(kAsyncHostToDeviceTransferManagerTransferLiteral, "PJRT_AsyncHostToDeviceTransferManager_TransferLiteral")         \
  X(kBufferCopyRawToHostFuture, "PJRT_Buffer_CopyRawToHostFuture")                                                     \
  X(kDevicePoisonExecution, "PJRT_Device_PoisonExecution")                                                             \
  X(kDeviceCreateAsyncTrackingEvent, "PJRT_Device_CreateAsyncTrackingEvent")                                           \
  X(kAsyncTrackingEventDestroy, "PJRT_AsyncTrackingEvent_Destroy")                                                     \
  X(kExecutableGetCompileOptions, "PJRT_Executable_GetCompileOptions")                                                 \
  X(kBufferDonateWithControlDependency, "PJRT_Buffer_DonateWithControlDependency")                                     \
  X(kEventCreate, "PJRT_Event_Create")                                                                                 \
  X(kEventSet, "PJRT_Event_Set")                                                                                       \
  X(kDeviceGetAttributes, "PJRT_Device_GetAttributes")                                                                 \
  X(kClientLoad, "PJRT_Client_Load")                                                                                   \
  X(kLoadedExecutableAddressableDeviceLogicalIds, "PJRT_LoadedExecutable_AddressableDeviceLogicalIds")                 \
  X(kBufferBitcast, "PJRT_Buffer_Bitcast")                                                                             \
  X(kErrorForEachPayload, "PJRT_Error_ForEachPayload")                                                                 \
  X(kTopologyDescriptionFingerprint, "PJRT_TopologyDescription_Fingerprint")                                           \
  X(kExecutableParameterMemoryKinds, "PJRT_Executable_ParameterMemoryKinds")                                           \
  X(kDeviceClearMemoryStats, "PJRT_Device_ClearMemoryStats")                                                           \
  X(kTopologyDescriptionMakeCanonicalShapeForMemorySpace, "PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace") \
  X(kTopologyDescriptionGetMemorySpaceKindIds, "PJRT_TopologyDescription_GetMemorySpaceKindIds")

// The position of an entry; its address lies at sizeof(ApiHead) + 8 * position.
enum class Slot : std::size_t {
#define KPT_DECLARE_SLOT(enumerator, name) enumerator,
  KPT_PJRT_SLOTS(KPT_DECLARE_SLOT)
#undef KPT_DECLARE_SLOT
};

inline constexpr std::array kSlotNames = {
#define KPT_NAME_SLOT(enumerator, name) std::string_view(name),
    KPT_PJRT_SLOTS(KPT_NAME_SLOT)
#undef KPT_NAME_SLOT
};

// "PJRT_Client_Compile".
constexpr std::string_view name_of(Slot slot) { return kSlotNames[static_cast<std::size_t>(slot)]; }

}  // namespace kpt::pjrt
