// Who starts kernels of ours for the nodes of a run.
#pragma once

#include "kernels/gpu/launch.h"

namespace kpt::aten {

// While it lives, nodes that this thread runs start kernels by `launcher` on `stream`; null: a node that wants to
// fails.
class LauncherScope {
 public:
  LauncherScope(gpu::Launcher* launcher, void* stream);
  LauncherScope(const LauncherScope&) = delete;
  LauncherScope& operator=(const LauncherScope&) = delete;
  ~LauncherScope();

 private:
  gpu::Launcher* launcher_;  // what was before
  void* stream_;
};

}  // namespace kpt::aten
