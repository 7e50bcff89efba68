// What a backend is made with.
#pragma once

#include <filesystem>
#include <string>

#include "device/detection_context.h"

namespace kpt {

struct BackendContext {
  DetectionContext detection;
  std::filesystem::path torch_dir;  // option torch.dir; empty: search
  int threads = 1;                  // for one run: option threads.count
};

}  // namespace kpt
