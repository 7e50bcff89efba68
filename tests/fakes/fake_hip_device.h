// The part of the fake libamdhip64 that works: memory, streams, events, modules and kernels of one process, on the
// host.
//
// Device memory is host memory of the exact size, so AddressSanitizer sees what a kernel does beside it. Kernels run
// through the host mapping of src/kernels/gpu when they are launched. Every object is known: one that was never given
// out, or was given back, is refused with HIP's own code for it, and what is left at the end can be counted.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "kernels/gpu/host_launcher.h"

namespace fake {

// HIP's numbers.
inline constexpr int kInvalidValue = 1;
inline constexpr int kOutOfMemory = 2;
inline constexpr int kInvalidDevicePointer = 17;
inline constexpr int kInvalidImage = 200;
inline constexpr int kNoBinaryForGpu = 209;
inline constexpr int kInvalidHandle = 400;
inline constexpr int kNotFound = 500;
inline constexpr int kNotReady = 600;
inline constexpr int kLaunchFailure = 719;

struct Stream {
  bool hangs = false;  // a kernel that never ends is on it
};
struct Event {
  bool recorded = false;
  int tick = 0;        // when: each event that is recorded takes one
  bool hangs = false;  // its stream did when it was recorded
  int not_ready = 0;   // how often it is yet to say so
  std::chrono::steady_clock::time_point at;
};
struct Module;
struct Function {
  Module* module;
  std::string kernel;
};
struct Module {
  int wave = 64;
  std::set<std::string> kernels;
  std::map<std::string, std::unique_ptr<Function>> functions;
};

// Not safe for several threads.
class HipDevice {
 public:
  // All return HIP's codes.
  int allocate(void** pointer, std::size_t bytes, std::size_t device_bytes);
  int release(void* pointer);
  std::size_t used_bytes() const { return used_; }
  // Whether [pointer, pointer + bytes) is within one allocation of the device.
  bool holds(const void* pointer, std::size_t bytes) const;

  int load(Module** module, const void* image, const std::string& gfx_target);
  int find(Function** function, Module* module, const char* kernel);
  int launch(Function* function, unsigned blocks, unsigned threads, const void* arguments, std::size_t bytes);

  // Objects that were made and not given back.
  std::size_t live() const;

  std::map<const std::byte*, std::unique_ptr<std::byte[]>> host_memory;
  std::map<Stream*, std::unique_ptr<Stream>> streams;
  std::map<Event*, std::unique_ptr<Event>> events;
  std::map<Module*, std::unique_ptr<Module>> modules;
  int fault = 0;  // of a kernel that ran: all later calls that wait return it
  int ticks = 0;  // of events

 private:
  struct Block {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size;
  };
  std::map<const std::byte*, Block> memory_;
  std::size_t used_ = 0;
};

}  // namespace fake
