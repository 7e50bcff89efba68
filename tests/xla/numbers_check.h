// A graph run on XLA's CPU plugin with random inputs, held against libtorch and fp64.
#pragma once

#include <random>
#include <string>

#include "module_runner.h"

namespace kpt::xla_test {

// Reports every output that differs as a failure of the running test. `text` is for ir::read_graph(); its sizes are
// fixed.
void check_numbers(ModuleRunner& runner, const std::string& text, std::mt19937_64& random);

}  // namespace kpt::xla_test
