// Loading as the command line needs it: with its own configuration, and with access to what is inside.
#pragma once

#include <filesystem>
#include <memory>

#include "api/backend_list.h"
#include "base/environment.h"
#include "config/config.h"
#include "device/backend_context.h"
#include "kpt/model.h"
#include "runtime/loaded_model.h"

namespace kpt {

// Options threads.count, torch.dir, cache.dir, cache.budget_bytes, those of NVIDIA's and AMD's GPUs,
// pjrt.compile_timeout_ms, pjrt.devices, pjrt.sharding, placement.split, tpu.compile_timeout_ms,
// tpu.compile_memory_bytes, tpu.memory_percent, tpu.precision and those of detection.
Result<BackendContext> make_backend_context(const Config& config, const Environment& environment);

Result<std::shared_ptr<const detail::LoadedModel>> load_model_with(const std::filesystem::path& path,
                                                                   const LoadOptions& options,
                                                                   const BackendContext& context);
// The same on a device that find_runnable_device() gave, whatever `options` names.
Result<std::shared_ptr<const detail::LoadedModel>> load_model_on(PlacedDevice placed, const std::filesystem::path& path,
                                                                 const LoadOptions& options,
                                                                 const BackendContext& context);

}  // namespace kpt
