#include "backends/xla/xla_backend.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "backends/xla/plugin_names.h"
#include "base/log.h"
#include "engines/xla/execution/compile_ahead.h"
#include "engines/xla/execution/xla_device.h"
#include "engines/xla/execution/xla_program.h"
#include "engines/xla/pjrt/detect_plugins.h"
#include "engines/xla/stablehlo/lower.h"

namespace kpt {
namespace {

// The plugin of a target, to compile with.
using FindCompiler = std::function<Result<XlaDevice*>(std::string_view target)>;

// compile() leaves the compiler for when the program is loaded and its sizes are known; compile_sized() asks it at
// once, with or without sizes, for a program that is stored.
class XlaTarget final : public Target {
 public:
  XlaTarget(std::string name, FindCompiler find_compiler, const BackendContext& context)
      : name_(std::move(name)),
        find_compiler_(std::move(find_compiler)),
        context_(context),
        capabilities_(xla_capabilities()) {
    if (name_ == "xla:cuda" || name_ == "xla:rocm") {
      capabilities_.matrix_dtypes = {DType::kBFloat16, DType::kFloat16};
      capabilities_.tried_dtypes = {DType::kInt8};  // what the plugin makes of them was not measured
    }
  }

  std::string_view name() const override { return name_; }
  const Capabilities& capabilities() const override { return capabilities_; }
  Result<std::vector<Support>> supports(const ir::Graph& graph) const override { return xla::check_lowering(graph); }
  Result<std::unique_ptr<Program>> compile(ir::Graph graph) const override {
    return XlaProgram::make(name_, std::move(graph));
  }
  Result<std::unique_ptr<Program>> compile_sized(ir::Graph graph, const ir::Bindings& sizes) const override {
    KPT_ASSIGN_OR_RETURN(XlaDevice* const device, find_compiler_(name_));
    CompileStatistics counts;
    auto program = compile_ahead(*device, std::move(graph), sizes, context_, counts);
    const std::lock_guard lock(mutex_);
    statistics_ += counts;
    return program;
  }
  Result<std::unique_ptr<Program>> deserialize(std::string_view bytes) const override {
    if (is_ahead_program(kXlaAheadForm, bytes)) return AheadProgram::deserialize(kXlaAheadForm, name_, bytes);
    return XlaProgram::deserialize(name_, bytes);
  }
  std::optional<CompileStatistics> compile_statistics() const override {
    const std::lock_guard lock(mutex_);
    return statistics_;
  }

 private:
  std::string name_;
  FindCompiler find_compiler_;
  const BackendContext& context_;
  Capabilities capabilities_;
  mutable std::mutex mutex_;
  mutable CompileStatistics statistics_;
};

// What a plugin of this kind must be told: the host is as many devices as are asked for, and on a GPU memory is taken
// as it is needed, since libtorch may live beside it.
std::vector<pjrt::ClientOption> client_options(std::string_view device, std::size_t devices) {
  if (device == "xla:cpu") return {{"cpu_device_count", static_cast<std::int64_t>(devices)}};
  if (device == "xla:cuda" || device == "xla:rocm") return {{"preallocate", false}};
  return {};
}

XlaDeviceSetup make_setup(const std::string& name, const PjrtPlugin& plugin, std::size_t devices, int threads) {
  XlaDeviceSetup setup;
  setup.info = {
      name, "PJRT plugin " + plugin.path, fmt::format("PJRT {}.{}", plugin.api_major, plugin.api_minor), 0, true, ""};
  setup.plugin = plugin;
  setup.client_options = client_options(name, devices);
  setup.devices = {0, devices};
  setup.is_host = name == "xla:cpu";
  setup.host_threads = threads;
  setup.limits_runs = !setup.is_host;  // it may be slow, and another thread costs small models a tenth
  if (setup.is_host) setup.compile_limit = std::chrono::milliseconds(0);
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
    for (const char* name : {"xla:cpu", "xla:cuda", "xla:rocm"}) add_target(name);
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
    detect(find_plugins(context_.detection));
    return list_devices();
  }

  // A plugin may take its time to answer, or hang: those that do not matter are not asked.
  Result<std::vector<Device*>> devices_named(std::string_view name) override {
    const std::lock_guard lock(mutex_);
    detect_kind_of(name);
    return list_devices();
  }

  Result<std::unique_ptr<Executable>> load(std::shared_ptr<const Program> program, const Weights& weights,
                                           std::span<Device* const> devices) override {
    auto* const device = devices.size() == 1 ? dynamic_cast<XlaDevice*>(devices[0]) : nullptr;
    if (device == nullptr) {
      return Status(StatusCode::kInvalidArgument, "the xla backend loads a program on one of its own devices");
    }
    const auto ahead = std::dynamic_pointer_cast<const AheadProgram>(program);
    auto own = std::dynamic_pointer_cast<const XlaProgram>(program);
    const bool is_ours = own != nullptr || ahead != nullptr;
    if (!is_ours || program->target() != device->target().name()) {
      return Status(
          StatusCode::kInvalidArgument,
          fmt::format("a program for {} cannot be loaded on {}",
                      is_ours ? program->target() : std::string_view("another backend"), device->info().name));
    }
    if (ahead != nullptr) return load_ahead(*device, *ahead, weights, context_);
    return load_on_device(*device, std::move(own), weights, context_);
  }

 private:
  void add_target(const std::string& name) {
    targets_.emplace_back(name, [this](std::string_view target) { return find_compiler(target); }, context_);
  }

  std::vector<Device*> list_devices() {
    std::vector<Device*> all;
    for (XlaDevice& device : devices_) all.push_back(&device);
    return all;
  }

  // Of a device or a target. The first usable plugin of a kind has its short name, so that the others need not be asked
  // where that is the first of all; for other names all of the kind are.
  void detect_kind_of(std::string_view name) {
    constexpr std::string_view kPrefix = "xla:";
    if (!name.starts_with(kPrefix)) return;
    const std::string kind = plugin_kind(name.substr(kPrefix.size()));
    std::vector<PluginCandidate> all = find_plugins(context_.detection);
    std::erase_if(all, [&kind](const PluginCandidate& candidate) { return plugin_kind(candidate.name) != kind; });
    if (name.substr(kPrefix.size()) != kind) return detect(std::move(all));
    if (all.empty()) return;
    const std::string first = all.front().name;
    detect({all.front()});
    if (std::ranges::find(plugins_, first, &PjrtPlugin::name)->finding.presence == Presence::kPresent) return;
    detect(std::move(all));  // beside each other
  }

  // In the order of the search within each kind. None is asked twice.
  void detect(std::vector<PluginCandidate> candidates) {
    std::erase_if(candidates, [this](const PluginCandidate& candidate) {
      return std::ranges::find(plugins_, candidate.name, &PjrtPlugin::name) != plugins_.end();
    });
    if (candidates.empty()) return;
    const std::size_t before = plugins_.size();
    for (PjrtPlugin& plugin : ask_plugins(context_.detection, candidates, make_plugin_probe(context_.detection))) {
      plugins_.push_back(std::move(plugin));
    }
    log::debug("PJRT plugins asked", {{"plugins", std::to_string(plugins_.size() - before)}});
    names_ = name_xla_devices(plugins_);
    for (std::size_t i = before; i < plugins_.size(); ++i) {
      if (plugins_[i].finding.presence != Presence::kPresent) {
        warn_about(plugins_[i]);
        continue;
      }
      if (std::ranges::find(targets_, names_[i], &XlaTarget::name) == targets_.end()) add_target(names_[i]);
      const auto target = std::ranges::find(targets_, names_[i], &XlaTarget::name);
      devices_.emplace_back(*target, make_setup(names_[i], plugins_[i], context_.pjrt_devices, context_.threads));
      compilers_.emplace_back(*target, make_setup(names_[i], plugins_[i], 1, context_.threads));
    }
  }

  Result<XlaDevice*> find_compiler(std::string_view target) {
    const std::lock_guard lock(mutex_);
    detect_kind_of(target);
    for (XlaDevice& device : compilers_) {
      if (device.info().name == target) return &device;
    }
    const auto named = std::ranges::find(names_, target);
    if (named == names_.end()) {
      return Status(StatusCode::kDeviceNotAvailable,
                    fmt::format("compiling for {} needs its PJRT plugin, which was not found; install one, or name its "
                                "file in PJRT_NAMES_AND_LIBRARY_PATHS",
                                target));
    }
    const Finding& finding = plugins_[static_cast<std::size_t>(named - names_.begin())].finding;
    return Status(StatusCode::kDeviceNotAvailable,
                  fmt::format("compiling for {} needs its PJRT plugin, which cannot be used: {}{}{}", target,
                              finding.reason, finding.remedy.empty() ? "" : "; ", finding.remedy));
  }

  BackendContext context_;
  mutable std::mutex mutex_;
  std::deque<XlaTarget> targets_;    // addresses stay when it grows
  std::vector<PjrtPlugin> plugins_;  // that were asked
  std::vector<std::string> names_;   // of their devices
  std::deque<XlaDevice> devices_;
  std::deque<XlaDevice> compilers_;  // the same, each one device
};

}  // namespace

std::unique_ptr<Backend> make_xla_backend(const BackendContext& context) {
  return std::make_unique<XlaBackend>(context);
}

}  // namespace kpt
