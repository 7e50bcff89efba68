// Which engine runs models on AMD GPUs: libtorch's ROCm build where that is the libtorch at hand, else our own kernels.
#pragma once

#include <string>

#include "base/files.h"
#include "device/backend_context.h"
#include "engines/aten/torch_installation.h"
#include "kpt/status.h"

namespace kpt {

struct AmdEngineDecision {
  bool libtorch = false;
  std::string reason;  // one clause: why it is this one
};

// Looks at files alone and opens no library. With AmdEngine::kAuto, libtorch needs its ROCm build, our module for it
// and AMD's driver; a machine without a GPU keeps compiling our own kernels.
AmdEngineDecision choose_amd_engine(const TorchSearch& search, const SystemFiles& files, AmdEngine wanted);

}  // namespace kpt
