// PJRT's calls for compiling without a device: a topology by name, and what an executable tells of itself; see
// pjrt_types.h.
#pragma once

#include "engines/xla/pjrt/pjrt_client_calls.h"
#include "engines/xla/pjrt/pjrt_types.h"

namespace kpt::pjrt::abi {

struct TopologyDescription;

struct TopologyDescriptionCreateArgs {
  KPT_PJRT_ARGS(kTopologyDescriptionCreate)
  const char* topology_name;  // "v5e:2x2"
  std::size_t topology_name_size;
  const NamedValue* create_options;
  std::size_t num_options;
  TopologyDescription* topology;
};

struct TopologyDescriptionDestroyArgs {
  KPT_PJRT_ARGS(kTopologyDescriptionDestroy)
  TopologyDescription* topology;
};

struct TopologyDescriptionPlatformVersionArgs {
  KPT_PJRT_ARGS(kTopologyDescriptionPlatformVersion)
  TopologyDescription* topology;
  const char* platform_version;  // the topology's
  std::size_t platform_version_size;
};

struct TopologyDescriptionGetDeviceDescriptionsArgs {
  KPT_PJRT_ARGS(kTopologyDescriptionGetDeviceDescriptions)
  const TopologyDescription* topology;
  DeviceDescription* const* descriptions;  // the topology's
  std::size_t num_descriptions;
};

struct CompileArgs {
  KPT_PJRT_ARGS(kCompile)
  const TopologyDescription* topology;
  const Program* program;
  const char* compile_options;
  std::size_t compile_options_size;
  Client* client;  // null: no device is asked
  Executable* executable;
};

struct ExecutableSizeOfGeneratedCodeInBytesArgs {
  KPT_PJRT_ARGS(kExecutableSizeOfGeneratedCodeInBytes)
  Executable* executable;
  std::int64_t size_in_bytes;
};

struct ExecutableGetCostAnalysisArgs {
  KPT_PJRT_ARGS(kExecutableGetCostAnalysis)
  Executable* executable;
  std::size_t num_properties;
  const NamedValue* properties;  // the executable's
};

}  // namespace kpt::pjrt::abi
