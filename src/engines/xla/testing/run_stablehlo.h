// For tests: runs a StableHLO module on the CPU plugin of the Python environment that the build was configured with.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engines/xla/pjrt/client.h"
#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt::testing {

// Empty when there is none that can be used here; the other then says why.
std::string cpu_plugin_path();
std::string why_no_cpu_plugin();

// One client with four devices for the whole program; not found when there is no plugin. Never destroyed.
Result<std::shared_ptr<const pjrt::Client>> cpu_client();

// Compiles and runs `text` (one function @main) on one device. `inputs` are the arguments in order; what comes back are
// the results in order.
Result<std::vector<Tensor>> run_stablehlo(std::string_view text, std::span<const Tensor> inputs);

}  // namespace kpt::testing

// First line of a test that needs the plugin.
#define KPT_NEEDS_CPU_PLUGIN() \
  if (::kpt::testing::cpu_plugin_path().empty()) GTEST_SKIP() << ::kpt::testing::why_no_cpu_plugin()
