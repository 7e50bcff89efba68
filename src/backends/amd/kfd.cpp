#include "backends/amd/kfd.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "backends/amd/architecture.h"
#include "backends/amd/pci_ids.h"
#include "base/text.h"
#include "device/vendor_text.h"

namespace kpt {
namespace {

constexpr std::string_view kNodes = "/sys/class/kfd/kfd/topology/nodes";

using Properties = std::map<std::string, std::uint64_t, std::less<>>;

// Lines of "name number". What does not look like that gives one note for the file.
Properties parse_properties(std::string_view text, const std::string& path, std::vector<std::string>& notes) {
  Properties properties;
  bool garbled = false;
  for (std::string_view line : split(text, '\n')) {
    line = trim(line);
    if (line.empty()) continue;
    const auto space = line.find(' ');
    const auto number = space == std::string_view::npos ? std::nullopt : parse_uint(trim(line.substr(space + 1)));
    if (number) {
      properties.insert_or_assign(std::string(line.substr(0, space)), *number);
    } else {
      garbled = true;
    }
  }
  if (garbled) notes.push_back(fmt::format("{} has lines that are not 'name number'; they were passed over", path));
  return properties;
}

std::optional<std::uint64_t> find_property(const Properties& properties, std::string_view name) {
  const auto found = properties.find(name);
  return found == properties.end() ? std::nullopt : std::optional(found->second);
}

// Video memory: banks of the heaps "frame buffer public" (1) and "private" (2); heap 0 is the host's memory.
std::uint64_t read_memory_bytes(const SystemFiles& files, const std::string& node, std::vector<std::string>& notes) {
  const std::string folder = node + "/mem_banks";
  const auto banks = files.list(folder);
  if (!banks.ok()) {
    notes.push_back(fmt::format("the memory size is unknown: {} cannot be read", folder));
    return 0;
  }
  std::uint64_t total = 0;
  for (const std::string& bank : *banks) {
    const std::string path = fmt::format("{}/{}/properties", folder, bank);
    const auto text = files.read(path);
    if (!text.ok()) {
      notes.push_back(fmt::format("{} cannot be read", path));
      continue;
    }
    const Properties properties = parse_properties(*text, path, notes);
    const auto heap = find_property(properties, "heap_type");
    const auto size = find_property(properties, "size_in_bytes");
    if (!heap || (*heap != 1 && *heap != 2)) continue;
    if (!size || *size > std::numeric_limits<std::uint64_t>::max() - total) {
      notes.push_back(fmt::format("{} has no usable size_in_bytes", path));
      continue;
    }
    total += *size;
  }
  return total;
}

// location_id holds bus, device and function as PCI packs them.
std::string format_address(const Properties& properties) {
  const auto location = find_property(properties, "location_id");
  if (!location || *location > 0xffff) return {};
  const std::uint64_t domain = find_property(properties, "domain").value_or(0);
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", domain & 0xffffffffU, *location >> 8U, (*location >> 3U) & 0x1fU,
                     *location & 7U);
}

int count_compute_units(const Properties& properties) {
  const auto simds = find_property(properties, "simd_count").value_or(0);
  const auto per_unit = find_property(properties, "simd_per_cu").value_or(0);
  constexpr std::uint64_t kMostSimds = 1U << 20U;
  if (per_unit == 0 || simds > kMostSimds) return 0;
  return static_cast<int>(simds / per_unit);
}

std::optional<AmdGpu> read_node(const SystemFiles& files, const std::string& node, std::vector<std::string>& notes) {
  const std::string path = node + "/properties";
  const auto text = files.read(path);
  if (!text.ok()) {
    notes.push_back(fmt::format("{} cannot be read", path));
    return std::nullopt;
  }
  const Properties properties = parse_properties(*text, path, notes);
  const auto simds = find_property(properties, "simd_count");
  const auto version = find_property(properties, "gfx_target_version");
  const bool is_cpu = find_property(properties, "cpu_cores_count").value_or(0) > 0 && simds.value_or(0) == 0;
  if (is_cpu || (simds && *simds == 0)) return std::nullopt;
  if (!simds && !version) {
    notes.push_back(fmt::format("{} is truncated: it names neither simd_count nor gfx_target_version", path));
    return std::nullopt;
  }
  AmdGpu gpu;
  const auto target = version ? gfx_target_from_kfd(*version) : std::nullopt;
  if (target) {
    gpu.gfx_target = *target;
  } else {
    notes.push_back(fmt::format("{} has no usable gfx_target_version", path));
  }
  gpu.compute_units = count_compute_units(properties);
  if (gpu.compute_units == 0) notes.push_back(fmt::format("{} has no usable simd_count and simd_per_cu", path));
  gpu.pci_bus_id = format_address(properties);
  gpu.memory_total_bytes = read_memory_bytes(files, node, notes);

  const auto device_id = find_property(properties, "device_id");
  const AmdPciId* id =
      device_id && *device_id <= 0xffff ? find_amd_pci_id(static_cast<std::uint16_t>(*device_id)) : nullptr;
  if (id != nullptr && gpu.gfx_target.empty()) gpu.gfx_target = id->gfx_target;
  describe_amd_target(gpu);
  // For an unknown target the kernel's own figure is all there is.
  const auto wavefront = find_property(properties, "wave_front_size");
  if (gpu.wavefront_size == 0 && (wavefront == 32U || wavefront == 64U))
    gpu.wavefront_size = static_cast<int>(*wavefront);
  if (id != nullptr) {
    gpu.name = id->product;
  } else if (const auto name = files.read(node + "/name"); name.ok() && *name != "ip discovery") {
    gpu.name = printable_text(*name);
  }
  if (gpu.name.empty()) gpu.name = "AMD GPU " + (gpu.gfx_target.empty() ? "of unknown target" : gpu.gfx_target);
  return gpu;
}

}  // namespace

KfdTopology read_kfd_topology(const SystemFiles& files) {
  KfdTopology topology;
  const auto nodes = files.list(kNodes);
  if (!nodes.ok()) return topology;
  topology.present = true;
  for (const std::string& name : *nodes) {
    if (!parse_uint(name)) continue;
    auto gpu = read_node(files, fmt::format("{}/{}", kNodes, name), topology.notes);
    if (!gpu) continue;
    gpu->index = static_cast<int>(topology.gpus.size());
    topology.gpus.push_back(std::move(*gpu));
  }
  return topology;
}

}  // namespace kpt
