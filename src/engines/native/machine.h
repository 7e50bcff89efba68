// What planned launches need of a device: memory, streams, and kernels by family. A backend implements it; this engine
// knows no vendor.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "engines/native/graph_plan.h"
#include "kernels/gpu/launch.h"
#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt::native {

// Work in order. What queued work uses must outlive it.
class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;

  virtual Status copy_to_device(void* target, const void* source, std::size_t bytes) = 0;
  virtual Status copy_to_host(void* target, const void* source, std::size_t bytes) = 0;
  virtual Status copy_on_device(void* target, const void* source, std::size_t bytes) = 0;
  virtual Status clear(void* target, std::size_t bytes) = 0;  // to zeros
  virtual Status launch(gpu::Launcher& launcher, const gpu::Launch& launch) = 0;
  // Returns when all of it has ended. Fails with kDeadlineExceeded when the limit comes first: the work goes on.
  virtual Status synchronize(std::chrono::milliseconds limit) = 0;
};

// Thread safe.
class Machine {
 public:
  Machine() = default;
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  virtual ~Machine() = default;

  virtual std::string_view name() const = 0;  // "amd:0", as its buffers say
  virtual Vendor vendor() const = 0;
  virtual const Traits& traits() const = 0;
  // At an address that 16 divides; kernels read that much at once. Fails with kOutOfMemory when holders had nothing to
  // let go of either.
  virtual Result<std::shared_ptr<Buffer>> allocate(std::size_t bytes) = 0;
  // `let_go` is called when memory ends, by any thread, until the returned object goes; it must not allocate.
  [[nodiscard]] virtual std::shared_ptr<void> add_holder(std::function<void()> let_go) = 0;
  virtual Result<std::unique_ptr<Stream>> make_stream() = 0;
  // Kernels of a family, made ready when first asked for. Lives as long as the machine.
  virtual Result<gpu::Launcher*> load_family(std::string_view family) = 0;
};

}  // namespace kpt::native
