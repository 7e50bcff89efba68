// Runs a lowered module on XLA's CPU plugin, the one of the Python environment that the tests use.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engines/xla/stablehlo/lower.h"
#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt::xla_test {

class ModuleRunner {
 public:
  // Fails with kNotFound when there is no plugin.
  static Result<std::unique_ptr<ModuleRunner>> open();
  virtual ~ModuleRunner() = default;

  // `inputs`: one per argument of the module, contiguous. A module that was compiled before is not compiled again.
  virtual Result<std::vector<Tensor>> run(const xla::LoweredModule& module, std::span<const Tensor> inputs) = 0;
};

}  // namespace kpt::xla_test
