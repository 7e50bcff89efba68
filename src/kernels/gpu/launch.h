// A kernel, ready to be started: what every mapping (CUDA, HIP, host) needs to know and nothing more.
//
// Calls (norm.h, softmax.h, …) are planned by plain functions: sizes and pointers in, launches out. A plan can be kept
// and started many times. Starting it is the launcher's work, which is different for each mapping and small.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kpt/dtype.h"
#include "kpt/status.h"

namespace kpt::gpu {

inline constexpr std::size_t kMaxArgBytes = 384;

struct Launch {
  std::string kernel;  // its name in the family's list, "norm_block4_bf16"
  std::uint32_t blocks = 0;
  std::uint32_t threads = 0;       // a multiple of the wave
  std::uint32_t shared_bytes = 0;  // besides what the kernel names itself; on NVIDIA only
  std::array<std::byte, kMaxArgBytes> args{};
  std::size_t arg_bytes = 0;
};

// AMD's matrix cores, by the kernels that are for them: gfx90a, gfx942, gfx950, gfx11, gfx12 (matrix_lane.h).
enum class MatrixUnit : std::uint8_t { kNone, kCdna2, kCdna3, kCdna4, kRdna3, kRdna4 };
// "cdna3": as kernels are named; empty for none.
std::string_view unit_name(MatrixUnit unit);

// What a plan must know of the device.
struct DeviceShape {
  int wave = 32;              // 32 or 64
  int multiprocessors = 132;  // compute units: how many blocks keep it busy, not how many it can hold
  MatrixUnit matrix = MatrixUnit::kNone;
  int shared_bytes =
      0;  // that a launch may ask for; 0: none, and no copies into shared memory that go on by themselves
};

// Starts kernels in order on a stream of its kind (cudaStream_t, hipStream_t; the host has none). Thread safety is the
// implementation's to state.
class Launcher {
 public:
  Launcher() = default;
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  virtual ~Launcher() = default;

  virtual DeviceShape shape() const = 0;
  // Fails with kKernelLaunch (the device's reason) or kNotFound (no such kernel).
  virtual Status launch(const Launch& launch, void* stream) = 0;
};

using Plan = std::vector<Launch>;

// Starts all launches of a plan; a plan that failed gives its failure.
Status run_plan(Launcher& launcher, const Result<Plan>& plan, void* stream);

// Arguments are plain bytes with the same layout in every compiler.
template <typename Args>
Launch make_launch(std::string kernel, std::int64_t blocks, Args args, int threads) {
  static_assert(std::is_trivially_copyable_v<Args> && sizeof(Args) <= kMaxArgBytes);
  args.threads = threads;
  Launch launch;
  launch.kernel = std::move(kernel);
  launch.blocks = static_cast<std::uint32_t>(blocks);
  launch.threads = static_cast<std::uint32_t>(threads);
  std::memcpy(launch.args.data(), &args, sizeof args);
  launch.arg_bytes = sizeof args;
  return launch;
}

// One row of the lists at the end of the *_kernels.h files.
struct KernelInfo {
  std::string_view name;
  std::string_view family;  // "norm": the file that holds it
  int max_threads = 0;
  std::size_t arg_bytes = 0;
};

// All kernels, sorted by name.
const std::vector<KernelInfo>& list_kernels();

}  // namespace kpt::gpu
