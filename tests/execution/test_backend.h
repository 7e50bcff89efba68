// A backend that nothing outside tests/ knows: it adds and multiplies float32 tensors, its memory has no address for
// anybody else, it allocates its own outputs and takes whole graphs only, as PJRT does. Buffers that a graph writes
// live in states of its own.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "device/execution.h"

namespace kpt::execution_test {

// Runs of more rows than there is room for are out of memory.
struct TestMemory {
  std::int64_t rows = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t>* tried = nullptr;  // is told the rows of each run
  bool sizes_cost = false;                     // as its target says
  std::int64_t multiple = 1;                   // runs of other numbers of rows are invalid
  std::vector<Dims>* strides = nullptr;        // is told those of each run's inputs
  std::vector<bool>* as_written = nullptr;     // is told RunContext::as_written of each run
};

// What it computes, and where. One whose device is "cpu" stands for the host: its results have addresses.
struct TestOperators {
  std::vector<std::string> targets = {"aten.add.Tensor", "aten.mul.Tensor"};  // of these and aten.sub.Tensor
  std::string device = "test:0";
  std::string refused_input = {};  // nodes that read the graph's input of this name are refused
};

std::unique_ptr<Backend> make_test_backend(const TestMemory& memory = {}, const TestOperators& operators = {});

}  // namespace kpt::execution_test
