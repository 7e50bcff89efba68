// A backend that nothing outside tests/ knows: it adds and multiplies float32 tensors, its memory has no address for
// anybody else, it allocates its own outputs and takes whole graphs only, as PJRT does. Buffers that a graph writes
// live in states of its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/execution.h"

namespace kpt::execution_test {

// What holds a device's work back until a test lets it go. Thread safe.
class TestGate {
 public:
  void open();
  bool is_open() const;
  void pass() const;  // waits until it is open

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool open_ = false;
};

// Runs of more rows than there is room for fail for want of memory.
struct TestMemory {
  std::int64_t rows = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t>* tried = nullptr;  // is told the rows of each run
  bool sizes_cost = false;                     // as its target says
  std::int64_t multiple = 1;                   // runs of other numbers of rows are invalid
  std::vector<Dims>* strides = nullptr;        // is told those of each run's inputs
  std::vector<bool>* as_written = nullptr;     // is told RunContext::as_written of each run
  StatusCode shortage = StatusCode::kOutOfMemory;
  bool counted = false;         // its device tells how much is in use, of all such backends together
  bool peak_resets = false;     // and lets the peak begin anew
  bool streams = false;         // a run with an event returns at once; its results are right when that is over
  TestGate* gate = nullptr;     // every run waits for it, or, with `streams`, its event does
  bool fails_in_queue = false;  // the event of a run tells that the device failed
};

// What it computes, and where. One whose device is "cpu" stands for the host: its results have addresses.
struct TestOperators {
  std::vector<std::string> targets = {"aten.add.Tensor", "aten.mul.Tensor"};  // of these and aten.sub.Tensor
  std::string device = "test:0";
  std::string refused_input = {};  // nodes that read the graph's input of this name are refused
};

std::unique_ptr<Backend> make_test_backend(const TestMemory& memory = {}, const TestOperators& operators = {});

}  // namespace kpt::execution_test
