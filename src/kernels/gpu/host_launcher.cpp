#include "kernels/gpu/host_launcher.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/gpu/host_kernels.h"

namespace kpt::gpu {
namespace {

std::vector<HostEntry> make_entries() {
  std::vector<HostEntry> entries;
#define KPT_ADD_FAMILY(family, ...) \
  for (const HostEntry& entry : host_##family##_kernels()) entries.push_back(entry);
  KPT_GPU_FAMILIES(KPT_ADD_FAMILY)
  KPT_CUDA_FAMILIES(KPT_ADD_FAMILY)
  KPT_MATRIX_FAMILIES(KPT_ADD_FAMILY)
#undef KPT_ADD_FAMILY
  std::ranges::sort(entries, {}, [](const HostEntry& entry) { return entry.info.name; });
  return entries;
}

const std::vector<HostEntry>& host_entries() {
  static const std::vector<HostEntry> kEntries = make_entries();
  return kEntries;
}

std::vector<KernelInfo> make_list() {
  std::vector<KernelInfo> list;
  for (const HostEntry& entry : host_entries()) list.push_back(entry.info);
  return list;
}

}  // namespace

const std::vector<KernelInfo>& list_kernels() {
  static const std::vector<KernelInfo> kList = make_list();
  return kList;
}

constexpr int kSharedBytes = 225 * 1024;  // as an H200 has

HostLauncher::HostLauncher(int wave, std::uint64_t order_seed, int multiprocessors)
    : shape_{wave, multiprocessors, MatrixUnit::kNone, kSharedBytes}, block_(order_seed) {}

Status HostLauncher::launch(const Launch& launch, void* /*stream*/) {
  const auto& entries = host_entries();
  const auto found = std::ranges::lower_bound(entries, std::string_view(launch.kernel), {},
                                              [](const HostEntry& entry) { return entry.info.name; });
  if (found == entries.end() || found->info.name != launch.kernel) {
    return {StatusCode::kNotFound, fmt::format("there is no kernel {}", launch.kernel)};
  }
  const auto threads = static_cast<int>(launch.threads);
  if (threads <= 0 || threads > found->info.max_threads || threads % shape_.wave != 0 ||
      launch.arg_bytes != found->info.arg_bytes) {
    return {StatusCode::kKernelLaunch, fmt::format("kernel {}: {} threads and {} bytes of arguments do not fit",
                                                   launch.kernel, threads, launch.arg_bytes)};
  }
  // Arguments are copied to an address that is aligned for them.
  alignas(16) std::array<std::byte, kMaxArgBytes> args = launch.args;
  const HostKernel kernel = shape_.wave == 64 ? found->wave_64 : found->wave_32;
  if (kernel == nullptr) {
    return {StatusCode::kKernelLaunch,
            fmt::format("kernel {} is not for waves of {} lanes", launch.kernel, shape_.wave)};
  }
  for (std::uint32_t block = 0; block < launch.blocks; ++block) {
    KPT_RETURN_IF_ERROR(block_.run(launch.kernel, kernel, args.data(), block, threads, shape_.wave));
  }
  return {};
}

}  // namespace kpt::gpu
