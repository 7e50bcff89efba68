#include "fake_hip_device.h"

#include <cstring>
#include <limits>
#include <span>

#include "backends/amd/architecture.h"
#include "backends/amd/code_object.h"

namespace fake {
namespace {

// How long an ELF file is that only its address is known of: to the end of its last segment.
std::size_t image_bytes(const std::byte* image) {
  std::size_t end = 64;
  std::uint64_t table = 0;
  std::uint16_t entries = 0;
  std::memcpy(&table, image + 32, sizeof table);
  std::memcpy(&entries, image + 56, sizeof entries);
  for (std::size_t entry = 0; entry < entries; ++entry) {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::memcpy(&offset, image + table + entry * 56 + 8, sizeof offset);
    std::memcpy(&size, image + table + entry * 56 + 32, sizeof size);
    end = std::max(end, static_cast<std::size_t>(offset + size));
  }
  return end;
}

}  // namespace

int HipDevice::allocate(void** pointer, std::size_t bytes, std::size_t device_bytes) {
  if (bytes > device_bytes || used_ > device_bytes - bytes) return kOutOfMemory;
  Block block{std::make_unique<std::byte[]>(bytes), bytes};
  std::memset(block.bytes.get(), 0xff, bytes);
  *pointer = block.bytes.get();
  used_ += bytes;
  const std::byte* key = block.bytes.get();
  memory_.emplace(key, std::move(block));
  return 0;
}

int HipDevice::release(void* pointer) {
  if (pointer == nullptr) return 0;
  const auto found = memory_.find(static_cast<const std::byte*>(pointer));
  if (found == memory_.end()) return kInvalidDevicePointer;
  used_ -= found->second.size;
  memory_.erase(found);
  return 0;
}

bool HipDevice::holds(const void* pointer, std::size_t bytes) const {
  const auto* place = static_cast<const std::byte*>(pointer);
  auto after = memory_.upper_bound(place);
  if (after == memory_.begin()) return false;
  const auto& [start, block] = *--after;
  const auto offset = static_cast<std::size_t>(place - start);
  return offset <= block.size && bytes <= block.size - offset;
}

int HipDevice::load(Module** module, const void* image, const std::string& gfx_target) {
  const auto* bytes = static_cast<const std::byte*>(image);
  const auto object = kpt::read_code_object(std::span(bytes, image_bytes(bytes)));
  if (!object.ok()) return kInvalidImage;
  const kpt::AmdArchitecture* architecture = kpt::find_amd_architecture(object->gfx_target);
  if (object->gfx_target != gfx_target || architecture == nullptr) return kNoBinaryForGpu;
  auto made = std::make_unique<Module>();
  made->wave = architecture->wavefront_size;
  for (const kpt::KernelResources& kernel : object->kernels) made->kernels.insert(kernel.name);
  *module = made.get();
  Module* key = made.get();
  modules.emplace(key, std::move(made));
  return 0;
}

int HipDevice::find(Function** function, Module* module, const char* kernel) {
  const auto found = modules.find(module);
  if (found == modules.end()) return kInvalidHandle;
  if (!module->kernels.contains(kernel)) return kNotFound;
  auto& entry = module->functions[kernel];
  if (entry == nullptr) entry = std::make_unique<Function>(Function{module, kernel});
  *function = entry.get();
  return 0;
}

int HipDevice::launch(Function* function, unsigned blocks, unsigned threads, const void* arguments, std::size_t bytes) {
  if (bytes > kpt::gpu::kMaxArgBytes || blocks == 0 || threads == 0) return kInvalidValue;
  kpt::gpu::Launch launch;
  launch.kernel = function->kernel;
  launch.blocks = blocks;
  launch.threads = threads;
  launch.arg_bytes = bytes;
  std::memcpy(launch.args.data(), arguments, bytes);
  thread_local kpt::gpu::HostLauncher wave_32(32);
  thread_local kpt::gpu::HostLauncher wave_64(64);
  auto& launcher = function->module->wave == 64 ? wave_64 : wave_32;
  return launcher.launch(launch, nullptr).ok() ? 0 : kInvalidValue;
}

std::size_t HipDevice::live() const {
  return memory_.size() + host_memory.size() + streams.size() + events.size() + modules.size();
}

}  // namespace fake
