#include "test_backend.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "ir/text.h"

namespace kpt::execution_test {
namespace {

constexpr char kTag = 0;

// Of all hidden memory of this process.
std::atomic<std::uint64_t> bytes_in_use = 0;
std::atomic<std::uint64_t> peak_of_bytes = 0;

class HiddenBuffer final : public Buffer {
 public:
  explicit HiddenBuffer(std::vector<float> content) : values(std::move(content)) {
    const std::uint64_t now = bytes_in_use += bytes();
    std::uint64_t peak = peak_of_bytes;
    while (peak < now && !peak_of_bytes.compare_exchange_weak(peak, now)) {
    }
  }
  HiddenBuffer(const HiddenBuffer&) = delete;
  HiddenBuffer& operator=(const HiddenBuffer&) = delete;
  ~HiddenBuffer() override { bytes_in_use -= bytes(); }
  void* data() const override { return nullptr; }
  std::size_t bytes() const override { return values.size() * sizeof(float); }
  std::string_view device() const override { return "test:0"; }
  const void* maker() const override { return &kTag; }
  std::vector<float> values;
};

Tensor make_tensor(std::vector<float> values, const Dims& dims) {
  auto buffer = std::make_shared<HiddenBuffer>(std::move(values));
  return Tensor::unchecked(std::move(buffer), DType::kFloat32, dims, contiguous_strides(dims), 0);
}

std::vector<float> values_of(const Tensor& tensor) {
  if (tensor.buffer()->maker() == &kTag) return static_cast<HiddenBuffer&>(*tensor.buffer()).values;
  const Tensor copy = tensor.contiguous_copy().value();
  const auto elements = copy.elements<float>();
  return {elements.begin(), elements.end()};
}

float compute(const std::string& target, float left, float right) {
  if (target == "aten.add.Tensor") return left + right;
  return target == "aten.sub.Tensor" ? left - right : left * right;
}

Result<Tensor> download_values(const Tensor& tensor) {
  KPT_ASSIGN_OR_RETURN(Tensor host, Tensor::empty(DType::kFloat32, tensor.dims()));
  const std::vector<float> values = values_of(tensor);
  std::copy(values.begin(), values.end(), host.elements<float>().begin());
  return host;
}

// "test" of "test:0".
std::string target_of(const std::string& device) { return device.substr(0, device.find(':')); }

class TestProgram final : public Program {
 public:
  TestProgram(std::string target, ir::Graph graph) : target_(std::move(target)), graph_(std::move(graph)) {}
  std::string_view target() const override { return target_; }
  const ir::Graph& graph() const override { return graph_; }
  Result<std::string> serialize() const override { return ir::print_graph(graph_); }

 private:
  std::string target_;
  ir::Graph graph_;
};

// Results that the device has not written yet: the buffers hold zeros until it is waited for.
class TestWork final : public Event::Impl {
 public:
  TestWork(const TestMemory& memory, std::vector<Tensor>& outputs) : memory_(memory) {
    for (Tensor& output : outputs) {
      std::vector<float> values = values_of(output);
      output = make_tensor(std::vector<float>(values.size()), output.dims());
      results_.emplace_back(std::static_pointer_cast<HiddenBuffer>(output.buffer()), std::move(values));
    }
  }
  Status wait() override {
    if (memory_.gate != nullptr) memory_.gate->pass();
    if (memory_.fails_in_queue) return {StatusCode::kDevice, "the test device failed while it worked"};
    std::call_once(once_, [this] {
      for (auto& [buffer, values] : results_) buffer->values = std::move(values);
    });
    return {};
  }
  bool done() const override { return memory_.gate == nullptr || memory_.gate->is_open(); }

 private:
  TestMemory memory_;
  std::once_flag once_;
  std::vector<std::pair<std::shared_ptr<HiddenBuffer>, std::vector<float>>> results_;
};

// It knows two tensors of float32, the first as large as the result.
bool can_compute(const ir::Graph& graph, const ir::Node& node) {
  if (node.arguments.size() != 2) return false;
  for (const ir::NamedArgument& argument : node.arguments) {
    const ir::ValueId* id = argument.value.value_id();
    if (id == nullptr || graph.at(*id).kind != ir::ValueKind::kTensor) return false;
    if (graph.at(*id).tensor.dtype != DType::kFloat32) return false;
  }
  const ir::ValueId left = *node.arguments[0].value.value_id();
  return graph.at(left).tensor.dims == graph.at(node.outputs[0].values[0]).tensor.dims;
}

bool reads_input(const ir::Graph& graph, const ir::Node& node, const std::string& name) {
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.name != name) continue;
    for (const ir::NamedArgument& argument : node.arguments) {
      const ir::ValueId* id = argument.value.value_id();
      if (id != nullptr && *id == input.value) return true;
    }
  }
  return false;
}

class TestTarget final : public Target {
 public:
  TestTarget(const TestMemory& memory, const TestOperators& operators)
      : name_(target_of(operators.device)), targets_(operators.targets), refused_input_(operators.refused_input) {
    capabilities_.sizes_cost = memory.sizes_cost;
    capabilities_.streams = memory.streams;
    capabilities_.host_processor = operators.device == "cpu";
    capabilities_.whole_graph_only = true;
    capabilities_.dtypes = {DType::kFloat32};
  }
  std::string_view name() const override { return name_; }
  const Capabilities& capabilities() const override { return capabilities_; }
  std::string arithmetic() const override { return "test numbers"; }
  Result<std::vector<Support>> supports(const ir::Graph& graph) const override {
    std::vector<Support> answers;
    for (const ir::Node& node : graph.nodes) {
      const bool known = std::find(targets_.begin(), targets_.end(), node.target) != targets_.end();
      const bool refused = !refused_input_.empty() && reads_input(graph, node, refused_input_);
      answers.push_back(known && !refused && can_compute(graph, node)
                            ? Support{}
                            : Support{false, "the test backend adds and multiplies only"});
    }
    return answers;
  }
  Result<std::unique_ptr<Program>> compile(ir::Graph graph) const override {
    return std::unique_ptr<Program>(std::make_unique<TestProgram>(name_, std::move(graph)));
  }
  Result<std::unique_ptr<Program>> deserialize(std::string_view bytes) const override {
    KPT_ASSIGN_OR_RETURN(ir::Graph graph, ir::read_graph(bytes));
    return std::unique_ptr<Program>(std::make_unique<TestProgram>(name_, std::move(graph)));
  }

 private:
  std::string name_;
  std::vector<std::string> targets_;
  std::string refused_input_;
  Capabilities capabilities_;
};

class TestDevice final : public Device {
 public:
  TestDevice(const Target& target, const std::string& name, const TestMemory& memory)
      : target_(target), counted_(memory.counted), peak_resets_(memory.peak_resets) {
    info_.name = name;
  }
  const DeviceInfo& info() const override { return info_; }
  const Target& target() const override { return target_; }
  Result<Tensor> allocate(DType, std::span<const std::int64_t> dims) override {
    const Dims shape(dims);
    return make_tensor(std::vector<float>(static_cast<std::size_t>(*count_elements(dims))), shape);
  }
  Result<Tensor> upload(const Tensor& host) override { return make_tensor(values_of(host), host.dims()); }
  Result<Tensor> download(const Tensor& tensor) override { return download_values(tensor); }
  Result<MemoryStatistics> memory() override {
    if (!counted_) return Device::memory();
    MemoryStatistics statistics;
    statistics.allocated_bytes = bytes_in_use;
    statistics.peak_bytes = peak_of_bytes;
    return statistics;
  }
  Status reset_peak_memory() override {
    if (!peak_resets_) return Device::reset_peak_memory();
    peak_of_bytes = bytes_in_use.load();
    return {};
  }

 private:
  const Target& target_;
  DeviceInfo info_;
  bool counted_;
  bool peak_resets_;
};

using Buffers = std::map<std::string, Tensor, std::less<>>;

// Buffers that a model writes, in hidden memory.
class TestState final : public State {
 public:
  explicit TestState(Buffers original) : current(original), original_(std::move(original)) {}
  Status reset() override {
    current = original_;
    return {};
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : current) names.push_back(name);
    return names;
  }
  Result<Tensor> read(std::string_view name) const override {
    const auto found = current.find(name);
    if (found == current.end()) return Status(StatusCode::kNotFound, "no such buffer");
    return download_values(found->second);
  }
  Status write(std::string_view name, const Tensor& value) override {
    const auto found = current.find(name);
    if (found == current.end()) return {StatusCode::kNotFound, "no such buffer"};
    found->second = make_tensor(values_of(value), value.dims());
    return {};
  }

  Buffers current;  // a run replaces its tensors

 private:
  Buffers original_;
};

class TestExecutable final : public Executable {
 public:
  TestExecutable(std::shared_ptr<const Program> program, Weights weights, const TestMemory& memory, std::string device)
      : program_(std::move(program)), weights_(std::move(weights)), memory_(memory), device_(std::move(device)) {
    for (const ir::GraphOutput& output : program_->graph().outputs) {
      if (output.kind == ir::OutputKind::kBufferMutation) written_.push_back(output.name);
    }
  }
  std::string_view device() const override { return device_; }
  bool is_stateful() const override { return !written_.empty(); }
  Result<std::unique_ptr<State>> make_state() const override {
    Buffers buffers;
    for (const std::string& name : written_) {
      const Tensor& stored = weights_.at(name);
      buffers.emplace(name, make_tensor(values_of(stored), stored.dims()));
    }
    return std::unique_ptr<State>(std::make_unique<TestState>(std::move(buffers)));
  }
  std::vector<NodePlan> plan() const override { return {}; }
  std::int64_t row_multiple() const override { return memory_.multiple; }
  std::string describe_runs() const override { return device_ == "cpu" ? "" : "one after the other"; }
  Status run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs, Event* event) override {
    for (const Tensor& input : inputs) {
      if (device_ == "cpu" && input.device() != "cpu") return {StatusCode::kInvalidArgument, "not on the host"};
      if (memory_.strides != nullptr) memory_.strides->push_back(input.strides());
    }
    const std::int64_t rows = inputs.empty() || inputs[0].dims().empty() ? 1 : inputs[0].dims()[0];
    if (memory_.tried != nullptr) memory_.tried->push_back(rows);
    if (memory_.as_written != nullptr) memory_.as_written->push_back(context.as_written);
    if (rows % memory_.multiple != 0) return {StatusCode::kInvalidArgument, "the rows cannot be shared evenly"};
    if (rows > memory_.rows) return {memory_.shortage, "the test backend has no room for so many rows"};
    if (is_stateful() && context.state == nullptr) return {StatusCode::kInvalidArgument, "a run needs a state"};
    const bool queued = memory_.streams && event != nullptr;
    if (!queued && memory_.gate != nullptr) memory_.gate->pass();
    auto* const state = static_cast<TestState*>(context.state);
    const ir::Graph& graph = program_->graph();
    std::map<ir::ValueId, Tensor> values;
    std::size_t next = 0;
    for (const ir::GraphInput& input : graph.inputs) {
      const bool kept = state != nullptr && state->current.contains(input.name);
      values[input.value] = input.kind == ir::InputKind::kUser ? inputs[next++]
                            : kept                             ? state->current.at(input.name)
                                                               : weights_.at(input.name);
    }
    for (const ir::Node& node : graph.nodes) {
      const Tensor& left = values.at(*node.arguments[0].value.value_id());
      std::vector<float> a = values_of(left);
      const std::vector<float> b = values_of(values.at(*node.arguments[1].value.value_id()));
      for (std::size_t index = 0; index < a.size(); ++index) {
        const float other = b[index % b.size()];  // rows are broadcast
        a[index] = compute(node.target, a[index], other);
      }
      values[node.outputs[0].values[0]] = make_tensor(std::move(a), left.dims());
    }
    outputs.clear();
    for (const ir::GraphOutput& output : graph.outputs) {
      const Tensor& value = values.at(*output.value.value_id());
      if (output.kind == ir::OutputKind::kUser) {
        outputs.push_back(device_ == "cpu" ? download_values(value).value() : value);
      } else {
        state->current.at(output.name) = value;
      }
    }
    if (queued) {
      *event = Event(std::make_shared<TestWork>(memory_, outputs));
    } else if (event != nullptr) {
      *event = Event();
    }
    return {};
  }

 private:
  std::shared_ptr<const Program> program_;
  Weights weights_;
  TestMemory memory_;
  std::string device_;
  std::vector<std::string> written_;  // buffers
};

class TestBackend final : public Backend {
 public:
  TestBackend(const TestMemory& memory, const TestOperators& operators)
      : target_(memory, operators), device_(target_, operators.device, memory), memory_(memory) {}
  std::string_view name() const override { return target_.name(); }
  std::vector<const Target*> targets() const override { return {&target_}; }
  Result<std::vector<Device*>> devices() override { return std::vector<Device*>{&device_}; }
  Result<std::unique_ptr<Executable>> load(std::shared_ptr<const Program> program, const Weights& weights,
                                           std::span<Device* const>) override {
    return std::unique_ptr<Executable>(
        std::make_unique<TestExecutable>(std::move(program), weights, memory_, device_.info().name));
  }

 private:
  TestTarget target_;
  TestDevice device_;
  TestMemory memory_;
};

}  // namespace

void TestGate::open() {
  const std::lock_guard lock(mutex_);
  open_ = true;
  changed_.notify_all();
}

bool TestGate::is_open() const {
  const std::lock_guard lock(mutex_);
  return open_;
}

void TestGate::pass() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return open_; });
}

std::unique_ptr<Backend> make_test_backend(const TestMemory& memory, const TestOperators& operators) {
  return std::make_unique<TestBackend>(memory, operators);
}

}  // namespace kpt::execution_test
