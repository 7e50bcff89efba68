#include "runtime/split_backend.h"

#include <algorithm>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "runtime/split_graph.h"

namespace kpt {
namespace {

bool runs_all(const std::vector<Support>& answers) {
  return std::ranges::all_of(answers, [](const Support& answer) { return answer.supported; });
}

// Opened when the first node needs it: a model that runs whole must not pay for a second engine.
class LazyHost {
 public:
  explicit LazyHost(std::function<Result<DevicePlace>()> find) : find_(std::move(find)) {}
  Result<DevicePlace> get() {
    const std::lock_guard lock(mutex_);
    if (!found_) found_ = find_();
    return *found_;
  }

 private:
  std::function<Result<DevicePlace>()> find_;
  std::mutex mutex_;
  std::optional<Result<DevicePlace>> found_;
};

class SplitTarget final : public Target {
 public:
  SplitTarget(const Device& device, LazyHost& host, bool allowed)
      : device_(device), whole_(device.target()), host_(host), allowed_(allowed) {}

  std::string_view name() const override { return whole_.name(); }
  const Capabilities& capabilities() const override { return whole_.capabilities(); }
  const HardwareRates* rates() const override { return whole_.rates(); }
  std::string arithmetic() const override { return whole_.arithmetic() + (allowed_ ? " split" : ""); }
  std::optional<CompileStatistics> compile_statistics() const override { return whole_.compile_statistics(); }
  Result<std::unique_ptr<Program>> deserialize(std::string_view bytes) const override {
    return whole_.deserialize(bytes);
  }
  Result<std::unique_ptr<Program>> compile_sized(ir::Graph graph, const ir::Bindings& sizes) const override {
    return whole_.compile_sized(std::move(graph), sizes);
  }

  Result<std::vector<Support>> supports(const ir::Graph& graph) const override {
    KPT_ASSIGN_OR_RETURN(std::vector<Support> answers, whole_.supports(graph));
    if (!allowed_ || runs_all(answers) || !split(graph).ok()) return answers;
    return std::vector<Support>(answers.size());
  }

  Result<std::unique_ptr<Program>> compile(ir::Graph graph) const override {
    if (!allowed_) return whole_.compile(std::move(graph));
    KPT_ASSIGN_OR_RETURN(const std::vector<Support> answers, whole_.supports(graph));
    if (runs_all(answers)) return whole_.compile(std::move(graph));
    KPT_ASSIGN_OR_RETURN(SplitGraph parts, split(graph));
    KPT_ASSIGN_OR_RETURN(const DevicePlace host, host_.get());
    return SplitProgram::make(std::move(graph), std::move(parts), whole_, host.device->target());
  }

  Placement place(const ir::Graph& graph) const override {
    const auto answers = whole_.supports(graph);
    if (!answers.ok() || runs_all(*answers)) return {};
    Result<SplitGraph> parts = split(graph);
    Placement placement;
    if (allowed_ && parts.ok()) return std::move(parts->placement);
    if (allowed_) placement.advice = "placement.split does not help: " + parts.status().message();
    if (!allowed_ && parts.ok()) placement.advice = "allow placement.split to run them on the CPU";
    return placement;
  }

 private:
  Result<SplitGraph> split(const ir::Graph& graph) const {
    KPT_ASSIGN_OR_RETURN(const DevicePlace host, host_.get());
    return split_graph(graph, device_, *host.device);
  }

  const Device& device_;
  const Target& whole_;
  LazyHost& host_;
  bool allowed_;
};

class SplitDevice final : public Device {
 public:
  SplitDevice(Device& device, const Target& target) : device_(device), target_(target) {}

  const DeviceInfo& info() const override { return device_.info(); }
  const Target& target() const override { return target_; }
  Result<Tensor> allocate(DType dtype, std::span<const std::int64_t> dims) override {
    return device_.allocate(dtype, dims);
  }
  Result<Tensor> upload(const Tensor& host) override { return device_.upload(host); }
  // What a split model gives lies on the host.
  Result<Tensor> download(const Tensor& tensor) override {
    if (tensor.defined() && tensor.device() == "cpu") return tensor;
    return device_.download(tensor);
  }
  Result<Tensor> begin_upload(const Tensor& host, Event* event) override { return device_.begin_upload(host, event); }
  Result<Tensor> begin_download(const Tensor& tensor, Event* event) override {
    *event = Event();
    if (tensor.defined() && tensor.device() == "cpu") return tensor;
    return device_.begin_download(tensor, event);
  }
  Result<Tensor> begin_copy(Device& from, const Tensor& tensor, Event* event) override {
    return device_.begin_copy(from, tensor, event);
  }
  Result<std::vector<Activity>> record(const std::function<Status()>& work) override { return device_.record(work); }
  Result<MemoryStatistics> memory() override { return device_.memory(); }
  Status reset_peak_memory() override { return device_.reset_peak_memory(); }
  Status empty_cache() override { return device_.empty_cache(); }
  const HardwareRates* rates() const override { return device_.rates(); }

 private:
  Device& device_;
  const Target& target_;
};

class SplitBackend final : public Backend {
 public:
  SplitBackend(DevicePlace device, std::function<Result<DevicePlace>()> find_host, bool allowed)
      : whole_(std::move(device)),
        host_(std::move(find_host)),
        target_(*whole_.device, host_, allowed),
        device_(*whole_.device, target_) {}

  std::string_view name() const override { return whole_.backend->name(); }
  std::vector<const Target*> targets() const override { return {&target_}; }
  Result<std::vector<Device*>> devices() override { return std::vector<Device*>{&device_}; }

  Result<std::unique_ptr<Executable>> load(std::shared_ptr<const Program> program, const Weights& weights,
                                           std::span<Device* const> devices) override {
    if (devices.size() != 1 || devices[0] != &device_) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("a program is loaded on {}, the one device here", device_.info().name));
    }
    auto split = std::dynamic_pointer_cast<const SplitProgram>(program);
    if (split == nullptr) {
      Device* const whole[] = {whole_.device};
      return whole_.backend->load(std::move(program), weights, whole);
    }
    KPT_ASSIGN_OR_RETURN(DevicePlace host, host_.get());
    return SplitExecutable::load(std::move(split), weights, whole_, std::move(host));
  }

 private:
  DevicePlace whole_;
  LazyHost host_;
  SplitTarget target_;
  SplitDevice device_;
};

}  // namespace

std::shared_ptr<Backend> make_split_backend(DevicePlace device, std::function<Result<DevicePlace>()> find_host,
                                            bool allowed) {
  return std::make_shared<SplitBackend>(std::move(device), std::move(find_host), allowed);
}

}  // namespace kpt
