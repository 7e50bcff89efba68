#include "backends/tpu/detect_tpu.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "backends/tpu/architecture.h"
#include "backends/tpu/libtpu.h"
#include "backends/tpu/tpu_devices.h"
#include "base/text.h"
#include "device/machine_architecture.h"

namespace kpt {
namespace {

constexpr std::string_view kLibtpuArchitecture = "x86_64";  // the only one that Google publishes

using Bounds = std::array<std::uint64_t, 3>;

// "2,2,1", also with one or two numbers. Each is limited so that products cannot overflow.
std::optional<Bounds> parse_bounds(std::string_view text) {
  constexpr std::uint64_t kMaxBound = 65536;
  const auto parts = split(text, ',');
  if (parts.empty() || parts.size() > 3) return std::nullopt;
  Bounds bounds = {1, 1, 1};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto bound = parse_uint(trim(parts[i]));
    if (!bound || *bound == 0 || *bound > kMaxBound) return std::nullopt;
    bounds[i] = *bound;
  }
  return bounds;
}

// What the variables of a TPU virtual machine say.
struct SliceVariables {
  std::string accelerator_type;
  std::string topology;
  const TpuGeneration* generation = nullptr;
  std::optional<Bounds> chips_per_host;
  std::optional<Bounds> hosts;
  bool any() const { return !accelerator_type.empty() || chips_per_host.has_value(); }
};

SliceVariables read_variables(const Environment& environment, std::vector<std::string>& notes) {
  SliceVariables slice;
  slice.accelerator_type = environment.find("TPU_ACCELERATOR_TYPE").value_or("");
  slice.topology = environment.find("TPU_TOPOLOGY").value_or("");
  slice.generation = find_tpu_generation(slice.accelerator_type);
  if (!slice.accelerator_type.empty() && slice.generation == nullptr) {
    notes.push_back(
        fmt::format("TPU_ACCELERATOR_TYPE={} names no generation that is known here", slice.accelerator_type));
  }
  for (const auto& [name, bounds] :
       {std::pair("TPU_CHIPS_PER_HOST_BOUNDS", &slice.chips_per_host), std::pair("TPU_HOST_BOUNDS", &slice.hosts)}) {
    const auto text = environment.find(name);
    if (text) *bounds = parse_bounds(*text);
    if (text && !*bounds) notes.push_back(fmt::format("{}={} is not of the form x,y,z", name, *text));
  }
  return slice;
}

// The slice's shape: as told, or chips per host times hosts in each direction.
std::string topology_of(const SliceVariables& slice, const TpuGeneration* generation) {
  if (!slice.topology.empty()) return slice.topology;
  if (!slice.chips_per_host) return {};
  const Bounds hosts = slice.hosts.value_or(Bounds{1, 1, 1});
  Bounds size = *slice.chips_per_host;
  for (std::size_t i = 0; i < size.size(); ++i) size[i] *= hosts[i];
  const bool flat = generation != nullptr && generation->topology_dimensions == 2 && size[2] == 1;
  return flat ? fmt::format("{}x{}", size[0], size[1]) : fmt::format("{}x{}x{}", size[0], size[1], size[2]);
}

void describe_chips(TpuReport& report, const TpuDevices& devices, const SliceVariables& slice) {
  const TpuGeneration* generation = devices.generation;
  if (generation == nullptr) generation = slice.generation;
  if (devices.generation != nullptr && slice.generation != nullptr && devices.generation != slice.generation) {
    report.notes.push_back(fmt::format("TPU_ACCELERATOR_TYPE={} does not fit the {} chips on the PCI bus",
                                       slice.accelerator_type, devices.generation->name));
  }
  if (generation != nullptr) {
    report.generation = generation->name;
    report.cores_per_chip = generation->cores_per_chip;
    report.hbm_bytes_per_chip = generation->hbm_bytes_per_chip;
  }
  for (const std::string& id : devices.unknown_ids) {
    report.notes.push_back(fmt::format("the Google PCI device {} is of no TPU generation that is known here", id));
  }
  report.chips = devices.known_chips;
  // Without a known chip on the bus (containers may hide it), nodes are the only count there is.
  if (report.chips == 0) report.chips = static_cast<int>(devices.nodes.size());
  report.topology = topology_of(slice, generation);
  report.accelerator_type = slice.accelerator_type;
  if (slice.chips_per_host && report.chips > 0) {
    const Bounds& bounds = *slice.chips_per_host;
    const std::uint64_t told = bounds[0] * bounds[1] * bounds[2];
    if (told != static_cast<std::uint64_t>(report.chips)) {
      report.notes.push_back(
          fmt::format("TPU_CHIPS_PER_HOST_BOUNDS tells of {} chips, but {} are here", told, report.chips));
    }
  }
}

Finding broken(std::string reason, std::string remedy) {
  return {Presence::kBroken, std::move(reason), std::move(remedy)};
}

// What stands between the chips and a program; nothing when the nodes are there and open.
std::optional<Finding> find_node_fault(const TpuDevices& devices, const SliceVariables& slice) {
  if (devices.nodes.empty() && devices.known_chips > 0) {
    const bool accel = devices.generation->node_kind == TpuNodeKind::kAccel;
    return broken(fmt::format("{} TPU {} chips are on the PCI bus, but there is no device node for them",
                              devices.known_chips, devices.generation->name),
                  fmt::format("start the container with the nodes {} (docker run --privileged)",
                              accel ? "/dev/accel*" : "/dev/vfio/*"));
  }
  if (devices.nodes.empty()) {
    const std::string_view variable =
        slice.accelerator_type.empty() ? "TPU_CHIPS_PER_HOST_BOUNDS" : "TPU_ACCELERATOR_TYPE";
    return broken(fmt::format("{} tells of a TPU{}{}, but there is neither a chip on the PCI bus nor a device node",
                              variable, slice.accelerator_type.empty() ? "" : " ", slice.accelerator_type),
                  fmt::format("start the container with /dev/vfio/* or /dev/accel* (docker run --privileged), or unset "
                              "{}",
                              variable));
  }
  std::vector<std::string> denied;
  for (const TpuNode& node : devices.nodes) {
    if (!node.can_open) denied.push_back(node.path);
  }
  if (denied.empty()) return std::nullopt;
  return broken(fmt::format("{} may not be opened for reading and writing by this user", denied.front()),
                fmt::format("sudo chmod a+rw {}", join(denied, " ")));
}

std::optional<Finding> find_libtpu_fault(const DetectionContext& context, const Libtpu& libtpu,
                                         const std::string& host) {
  const bool served = host.empty() || host == kLibtpuArchitecture;
  if (libtpu.path.empty()) {
    if (served) return broken("libtpu is not installed", libtpu_remedy(context, libtpu));
    return broken(fmt::format("libtpu is not installed, and it is published for {} only while this host is {}",
                              kLibtpuArchitecture, host),
                  fmt::format("use the chips from an {} host", kLibtpuArchitecture));
  }
  if (!libtpu.problem.empty()) {
    return broken(fmt::format("libtpu cannot be used: {}", libtpu.problem), libtpu_remedy(context, libtpu));
  }
  if (host.empty() || libtpu.architecture == host) return std::nullopt;
  return broken(
      fmt::format("{} is for {}, but this host is {}", libtpu.path, libtpu.architecture, host),
      served ? libtpu_remedy(context, libtpu) : fmt::format("use the chips from an {} host", kLibtpuArchitecture));
}

// No chips: libtpu still compiles for them.
Finding describe_absence(TpuReport& report, const Libtpu& libtpu, const std::string& host) {
  if (!libtpu.path.empty() && libtpu.problem.empty()) {
    const bool native = host.empty() || libtpu.architecture == host;
    report.notes.push_back(native ? fmt::format("libtpu is installed: programs can be compiled for TPUs that are not "
                                                "here")
                                  : fmt::format("libtpu is installed for {}: on this {} host it can compile for TPUs "
                                                "only under emulation",
                                                libtpu.architecture, host));
  } else if (!libtpu.path.empty()) {
    report.notes.push_back(fmt::format("libtpu cannot be used: {}", libtpu.problem));
  }
  return {Presence::kAbsent, "no TPU chip on the PCI bus and no TPU device node", ""};
}

void note_details(TpuReport& report, const DetectionContext& context, const TpuDevices& devices) {
  const int nodes = static_cast<int>(devices.nodes.size());
  if (devices.known_chips > 0 && nodes > 0 && nodes < devices.known_chips) {
    report.notes.push_back(
        fmt::format("{} of {} chips have a device node here; only those can be used", nodes, devices.known_chips));
  }
  if (const auto visible = context.environment.find("TPU_VISIBLE_CHIPS")) {
    report.notes.push_back(fmt::format("TPU_VISIBLE_CHIPS={} limits the chips that this process gets", *visible));
  }
  if (!report.libtpu_path.empty() && report.libtpu_version.empty()) {
    report.notes.push_back("libtpu's version is unknown: its Python package is not beside it");
  }
}

}  // namespace

TpuReport detect_tpu(const DetectionContext& context) {
  TpuReport report;
  const TpuDevices devices = find_tpu_devices(context.files);
  const Libtpu libtpu = find_libtpu(context);
  const std::string host = find_host_architecture(context.files);
  report.notes = devices.notes;
  const SliceVariables slice = read_variables(context.environment, report.notes);
  describe_chips(report, devices, slice);
  report.libtpu_path = libtpu.path;
  report.libtpu_version = libtpu.version;

  // An unknown Google device without a node may be anything; it is noted, but it is no TPU.
  if (devices.known_chips == 0 && devices.nodes.empty() && !slice.any()) {
    report.finding = describe_absence(report, libtpu, host);
  } else if (auto node_fault = find_node_fault(devices, slice)) {
    report.finding = std::move(*node_fault);
  } else if (auto libtpu_fault = find_libtpu_fault(context, libtpu, host)) {
    report.finding = std::move(*libtpu_fault);
  } else {
    report.finding.presence = Presence::kPresent;
  }
  note_details(report, context, devices);
  return report;
}

}  // namespace kpt
