#include "backends/xla/xla_backend.h"

#include <algorithm>
#include <deque>
#include <mutex>

#include <fmt/format.h>

#include "backends/xla/plugin_names.h"
#include "base/log.h"
#include "engines/xla/execution/xla_device.h"
#include "engines/xla/execution/xla_program.h"
#include "engines/xla/pjrt/detect_plugins.h"
#include "engines/xla/stablehlo/lower.h"

namespace kpt {
namespace {

class XlaTarget final : public Target {
 public:
  explicit XlaTarget(std::string name) : name_(std::move(name)), capabilities_(xla_capabilities()) {
    if (name_ == "xla:cuda" || name_ == "xla:rocm") capabilities_.matrix_dtypes = {DType::kBFloat16, DType::kFloat16};
  }

  std::string_view name() const override { return name_; }
  const Capabilities& capabilities() const override { return capabilities_; }
  Result<std::vector<Support>> supports(const ir::Graph& graph) const override { return xla::check_lowering(graph); }
  Result<std::unique_ptr<Program>> compile(ir::Graph graph) const override {
    return XlaProgram::make(name_, std::move(graph));
  }
  Result<std::unique_ptr<Program>> deserialize(std::string_view bytes) const override {
    return XlaProgram::deserialize(name_, bytes);
  }

 private:
  std::string name_;
  Capabilities capabilities_;
};

// What a plugin of this kind must be told: the host is as many devices as are asked for, and on a GPU memory is taken
// as it is needed, since libtorch may live beside it.
std::vector<pjrt::ClientOption> client_options(std::string_view device, std::size_t devices) {
  if (device == "xla:cpu") return {{"cpu_device_count", static_cast<std::int64_t>(devices)}};
  if (device == "xla:cuda" || device == "xla:rocm") return {{"preallocate", false}};
  return {};
}

XlaDeviceSetup make_setup(const std::string& name, const PjrtPlugin& plugin, std::size_t devices) {
  XlaDeviceSetup setup;
  setup.info = {
      name, "PJRT plugin " + plugin.path, fmt::format("PJRT {}.{}", plugin.api_major, plugin.api_minor), 0, true, ""};
  setup.plugin = plugin;
  setup.client_options = client_options(name, devices);
  setup.devices = {0, devices};
  setup.is_host = name == "xla:cpu";
  return setup;
}

// Only for a plugin that the user named: an environment may well hold one for hardware that is not here.
void warn_about(const PjrtPlugin& plugin) {
  if (plugin.source == "python environment") return;
  log::warn("a PJRT plugin cannot be used",
            {{"plugin", plugin.name}, {"reason", plugin.finding.reason}, {"remedy", plugin.finding.remedy}});
}

class XlaBackend final : public Backend {
 public:
  explicit XlaBackend(const BackendContext& context) : context_(context) {
    for (const char* name : {"xla:cpu", "xla:cuda", "xla:rocm"}) targets_.emplace_back(name);
  }

  std::string_view name() const override { return "xla"; }

  std::vector<const Target*> targets() const override {
    const std::lock_guard lock(mutex_);
    std::vector<const Target*> all;
    for (const XlaTarget& target : targets_) all.push_back(&target);
    return all;
  }

  Result<std::vector<Device*>> devices() override {
    const std::lock_guard lock(mutex_);
    if (!detected_) detect();
    std::vector<Device*> all;
    for (XlaDevice& device : devices_) all.push_back(&device);
    return all;
  }

  Result<std::unique_ptr<Executable>> load(std::shared_ptr<const Program> program, const Weights& weights,
                                           std::span<Device* const> devices) override {
    auto* const device = devices.size() == 1 ? dynamic_cast<XlaDevice*>(devices[0]) : nullptr;
    if (device == nullptr) {
      return Status(StatusCode::kInvalidArgument, "the xla backend loads a program on one of its own devices");
    }
    auto own = std::dynamic_pointer_cast<const XlaProgram>(std::move(program));
    if (own == nullptr || own->target() != device->target().name()) {
      return Status(
          StatusCode::kInvalidArgument,
          fmt::format("a program for {} cannot be loaded on {}",
                      own == nullptr ? std::string_view("another backend") : own->target(), device->info().name));
    }
    return load_on_device(*device, std::move(own), weights, context_);
  }

 private:
  void detect() {
    const std::vector<PjrtPlugin> plugins = detect_plugins(context_.detection, make_plugin_probe(context_.detection));
    const std::vector<std::string> names = name_xla_devices(plugins);
    for (std::size_t i = 0; i < plugins.size(); ++i) {
      if (plugins[i].finding.presence != Presence::kPresent) {
        warn_about(plugins[i]);
        continue;
      }
      auto target = std::ranges::find(targets_, names[i], &XlaTarget::name);
      if (target == targets_.end()) {
        targets_.emplace_back(names[i]);
        target = std::prev(targets_.end());
      }
      devices_.emplace_back(*target, make_setup(names[i], plugins[i], context_.pjrt_devices));
    }
    detected_ = true;
  }

  BackendContext context_;
  mutable std::mutex mutex_;
  std::deque<XlaTarget> targets_;  // addresses stay when it grows
  std::deque<XlaDevice> devices_;
  bool detected_ = false;
};

}  // namespace

std::unique_ptr<Backend> make_xla_backend(const BackendContext& context) {
  return std::make_unique<XlaBackend>(context);
}

}  // namespace kpt
