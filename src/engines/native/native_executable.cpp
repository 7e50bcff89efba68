#include "engines/native/native_executable.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/log.h"
#include "device/graph_arguments.h"
#include "device/run_limits.h"
#include "engines/native/kept_memory.h"

namespace kpt::native {
namespace {

// What a run without a time limit of its own may take, and what a stream may need to come to rest after a failure.
constexpr std::chrono::milliseconds kLongestRun{600000};
constexpr std::chrono::milliseconds kLongestRest{1000};
constexpr std::size_t kIdleFrames = 2;  // of one set of sizes

std::chrono::milliseconds time_left(const RunContext& context) {
  constexpr std::chrono::milliseconds kLongestDeadline = std::chrono::hours(24 * 365);
  if (!context.deadline) return kLongestRun;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*context.deadline - std::chrono::steady_clock::now());
  return std::clamp(left, std::chrono::milliseconds(0), kLongestDeadline);
}

bool can_reuse(const Tensor& tensor, const View& view, std::string_view device) {
  return tensor.defined() && tensor.dtype() == view.dtype && tensor.dims() == view.dims && tensor.is_contiguous() &&
         tensor.device() == device && tensor.data() != nullptr && tensor.buffer()->writable() &&
         tensor.buffer().use_count() == 1;
}

// Until the queued work has ended, or the run is cancelled or too late; the work goes on then.
Status wait_for(Stream& stream, const RunContext& context) {
  constexpr std::chrono::milliseconds kUnheard{20};  // how long a cancellation may go unheard
  const auto end = std::chrono::steady_clock::now() + time_left(context);
  for (;;) {
    const auto left =
        std::max(std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()), {});
    const auto limit = context.cancelled != nullptr ? std::min(left, kUnheard) : left;
    Status status = stream.synchronize(limit);
    if (status.code() != StatusCode::kDeadlineExceeded || limit == left) return status;
    KPT_RETURN_IF_ERROR(check_limits(context));
  }
}

// Addresses from the first element to behind the last.
struct Range {
  std::uintptr_t begin = 0, end = 0;
};

Range range_of(const Tensor& tensor) {
  if (tensor.element_count() == 0) return {};
  std::int64_t last = 0;
  for (std::size_t axis = 0; axis < tensor.dims().size(); ++axis) {
    last += (tensor.dims()[axis] - 1) * tensor.strides()[axis];
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data());
  return {begin, begin + (static_cast<std::uintptr_t>(last) + 1) * element_bytes(tensor.dtype())};
}

// Every name has bytes of its own on the device: what shares memory with a written buffer would not change with it.
Status check_written_alone(const ir::Graph& graph, std::span<const std::uint32_t> written, const Weights& weights) {
  for (const std::uint32_t index : written) {
    const std::string& name = graph.inputs[index].name;
    const Range own = range_of(weights.at(name));
    for (std::uint32_t other = 0; other < graph.inputs.size(); ++other) {
      const ir::GraphInput& input = graph.inputs[other];
      if (other == index || !is_weight(input)) continue;
      const Range range = range_of(weights.at(input.name));
      if (own.begin >= range.end || range.begin >= own.end) continue;
      return {StatusCode::kModelPreparation,
              fmt::format("buffer '{}' is written and shares memory with '{}', which planned launches keep apart", name,
                          input.name)};
    }
  }
  return {};
}

std::size_t view_bytes(const View& view) {
  return static_cast<std::size_t>(count_elements(view)) * element_bytes(view.dtype);
}

}  // namespace

// What one run at a time uses.
struct NativeExecutable::Frame {
  std::shared_ptr<Buffer> arena;
  std::unique_ptr<Stream> stream;
  std::vector<std::byte*> blocks;
  std::vector<BoundLaunch> launches;
  std::vector<gpu::Launcher*> launchers;  // by launch
  std::vector<std::int32_t> flags;
  std::vector<Tensor> kept;  // host memory that queued work may still read or write
};

// One set of sizes.
struct NativeExecutable::Shape {
  GraphPlan plan;
  std::uint64_t last_used = 0;
  std::vector<std::unique_ptr<Frame>> idle;
  std::vector<std::unique_ptr<Frame>> restless;  // their streams had not ended when they were given back
};

NativeExecutable::NativeExecutable(std::shared_ptr<const ir::Graph> graph, std::shared_ptr<Machine> machine)
    : graph_(std::move(graph)),
      kept_machine_(std::move(machine)),
      machine_(*kept_machine_),
      weight_offsets_(graph_->inputs.size(), 0),
      holder_(machine_.add_holder([this] { drop_idle_frames(); })) {}

NativeExecutable::~NativeExecutable() {
  holder_.reset();  // nobody else looks at the frames from here on
  for (const auto& [key, shape] : shapes_) {
    for (std::unique_ptr<Frame>& frame : shape->restless) {
      if (frame->stream->synchronize(std::chrono::milliseconds(0)).ok()) continue;
      log::warn("memory of a run that did not end is kept until the process ends",
                {{"device", std::string(machine_.name())}, {"bytes", std::to_string(frame->arena->bytes())}});
      keep_forever(std::move(frame));
      keep_forever(weights_);       // its kernels read them
      keep_forever(kept_machine_);  // and their code may be its
    }
  }
}

Result<std::unique_ptr<NativeExecutable>> NativeExecutable::load(std::shared_ptr<const ir::Graph> graph,
                                                                 const Weights& weights,
                                                                 std::shared_ptr<Machine> machine) {
  std::unique_ptr<NativeExecutable> made(new NativeExecutable(std::move(graph), std::move(machine)));
  const MemoryFacts facts(*made->graph_, {});
  KPT_RETURN_IF_ERROR(check_graph(*made->graph_, facts));
  made->written_ = written_buffers(*made->graph_, facts);
  if (made->graph_->symbols.empty()) {
    KPT_ASSIGN_OR_RETURN(auto shape, made->make_shape({}));
    const std::lock_guard lock(made->mutex_);
    made->shapes_.emplace(Key(), std::move(shape));
  }
  KPT_RETURN_IF_ERROR(made->upload_weights(weights));
  return made;
}

Status NativeExecutable::upload_weights(const Weights& weights) {
  // Tied weights are one piece of memory on the device too.
  struct Known {
    Tensor host;
    std::size_t offset;
  };
  std::vector<Known> known;
  std::size_t bytes = 0;
  for (std::size_t index = 0; index < graph_->inputs.size(); ++index) {
    const ir::GraphInput& input = graph_->inputs[index];
    if (!is_weight(input)) continue;
    const auto found = weights.find(input.name);
    if (found == weights.end()) {
      return {StatusCode::kInvalidArgument, fmt::format("weight '{}' is missing", input.name)};
    }
    const Tensor& host = found->second;
    KPT_RETURN_IF_ERROR(check_weight(graph_->at(input.value), input, host));
    const auto same = std::ranges::find_if(known, [&host](const Known& other) {
      return other.host.buffer() == host.buffer() && other.host.offset() == host.offset() &&
             other.host.dtype() == host.dtype() && other.host.dims() == host.dims() &&
             other.host.strides() == host.strides();
    });
    weight_offsets_[index] = same != known.end() ? same->offset : bytes;
    if (same != known.end()) continue;
    known.push_back({host, bytes});
    bytes += (host.bytes() + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  }
  KPT_RETURN_IF_ERROR(check_written_alone(*graph_, written_, weights));
  if (known.empty()) return {};
  for (Known& one : known) {  // before anything is queued, since it may fail
    if (one.host.is_contiguous()) continue;
    KPT_ASSIGN_OR_RETURN(one.host, one.host.contiguous_copy());
  }
  KPT_ASSIGN_OR_RETURN(weights_, machine_.allocate(std::max<std::size_t>(bytes, 1)));
  KPT_ASSIGN_OR_RETURN(auto stream, machine_.make_stream());
  Status status;
  std::vector<std::shared_ptr<void>> used = {weights_};
  for (const Known& one : known) {
    auto* target = static_cast<std::byte*>(weights_->data()) + one.offset;
    if (status.ok()) status = stream->copy_to_device(target, one.host.data(), one.host.bytes());
    used.push_back(one.host.buffer());
  }
  const Status ended = finish(std::move(stream), kLongestRun, std::move(used));
  return status.ok() ? ended : status;
}

Result<std::shared_ptr<NativeExecutable::Shape>> NativeExecutable::make_shape(const ir::Bindings& sizes) {
  auto shape = std::make_shared<Shape>();
  KPT_ASSIGN_OR_RETURN(shape->plan, plan_graph(*graph_, sizes, machine_.traits()));
  KPT_RETURN_IF_ERROR(shape->plan.sizes);
  for (const std::string& family : shape->plan.families) KPT_RETURN_IF_ERROR(machine_.load_family(family).status());
  return shape;
}

Result<std::shared_ptr<NativeExecutable::Shape>> NativeExecutable::find_shape(std::span<const Tensor> inputs) {
  ir::Bindings sizes;
  KPT_RETURN_IF_ERROR(bind_symbols(*graph_, inputs, sizes));
  Key key;
  for (const ir::SymbolRange& symbol : graph_->symbols) key.push_back(sizes.find(symbol.name).value_or(-1));
  if (auto known = find_known(key)) return known;
  return making_.run(key, [&]() -> Result<std::shared_ptr<Shape>> {
    if (auto known = find_known(key)) return known;
    KPT_ASSIGN_OR_RETURN(auto shape, make_shape(sizes));
    const std::lock_guard lock(mutex_);
    if (shapes_.size() >= kMostShapes) drop_oldest_shape();
    shape->last_used = ++uses_;
    shapes_.emplace(key, shape);
    return shape;
  });
}

std::shared_ptr<NativeExecutable::Shape> NativeExecutable::find_known(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto found = shapes_.find(key);
  if (found == shapes_.end()) return nullptr;
  found->second->last_used = ++uses_;
  return found->second;
}

// Frames that came to rest since they were given back are as good as new.
void NativeExecutable::settle(Shape& shape) {
  std::erase_if(shape.restless, [&shape](std::unique_ptr<Frame>& frame) {
    if (!frame->stream->synchronize(std::chrono::milliseconds(0)).ok()) return false;
    frame->kept.clear();
    if (shape.idle.size() < kIdleFrames) shape.idle.push_back(std::move(frame));
    return true;
  });
}

void NativeExecutable::drop_oldest_shape() {
  for (const auto& [key, shape] : shapes_) settle(*shape);
  auto oldest = shapes_.end();
  for (auto it = shapes_.begin(); it != shapes_.end(); ++it) {
    // One with a frame that did not come to rest stays.
    if (!it->second->restless.empty() || it->second.use_count() > 1) continue;
    if (oldest == shapes_.end() || it->second->last_used < oldest->second->last_used) oldest = it;
  }
  if (oldest != shapes_.end()) shapes_.erase(oldest);
}

Result<std::unique_ptr<NativeExecutable::Frame>> NativeExecutable::make_frame(const Shape& shape) {
  auto frame = std::make_unique<Frame>();
  KPT_ASSIGN_OR_RETURN(frame->stream, machine_.make_stream());
  KPT_ASSIGN_OR_RETURN(frame->arena, machine_.allocate(std::max<std::size_t>(shape.plan.arena_bytes, 1)));
  auto* arena = static_cast<std::byte*>(frame->arena->data());
  for (const Block& block : shape.plan.blocks) {
    frame->blocks.push_back(block.weight ? static_cast<std::byte*>(weights_->data()) + weight_offsets_[*block.weight]
                                         : arena + block.offset);
  }
  KPT_ASSIGN_OR_RETURN(frame->launches, bind_plan(shape.plan, frame->blocks, machine_.traits().shape));
  for (const BoundLaunch& launch : frame->launches) {
    KPT_ASSIGN_OR_RETURN(gpu::Launcher* const launcher, machine_.load_family(launch.family));
    frame->launchers.push_back(launcher);
  }
  return frame;
}

void NativeExecutable::drop_idle_frames() {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, shape] : shapes_) {
    settle(*shape);
    shape->idle.clear();
  }
}

Result<std::unique_ptr<NativeExecutable::Frame>> NativeExecutable::take_frame(Shape& shape) {
  {
    const std::lock_guard lock(mutex_);
    settle(shape);
    if (!shape.idle.empty()) {
      std::unique_ptr<Frame> frame = std::move(shape.idle.back());
      shape.idle.pop_back();
      return frame;
    }
  }
  return make_frame(shape);
}

bool NativeExecutable::give_back(Shape& shape, std::unique_ptr<Frame> frame, bool failed) {
  const bool rests = !failed || frame->stream->synchronize(kLongestRest).ok();
  const std::lock_guard lock(mutex_);
  if (!rests) {
    shape.restless.push_back(std::move(frame));
    return false;
  }
  frame->kept.clear();
  if (shape.idle.size() < kIdleFrames) shape.idle.push_back(std::move(frame));
  return true;
}

Result<std::unique_ptr<State>> NativeExecutable::make_state() const {
  if (!is_stateful()) return Status(StatusCode::kUnsupported, "the model writes no buffers");
  std::vector<NativeState::Buffer> buffers;
  for (const std::uint32_t input : written_) {
    const ir::Value& value = graph_->at(graph_->inputs[input].value);
    NativeState::Buffer buffer{graph_->inputs[input].name, input, value.tensor.dtype, {}, nullptr};
    for (const ir::Expr& dim : value.tensor.dims) {
      if (!dim.constant()) return Status(StatusCode::kUnsupported, "buffers of free sizes cannot be written");
      buffer.dims.push_back(*dim.constant());
    }
    buffer.original = static_cast<const std::byte*>(weights_->data()) + weight_offsets_[input];
    buffers.push_back(std::move(buffer));
  }
  KPT_ASSIGN_OR_RETURN(auto state, NativeState::make(this, kept_machine_, weights_, std::move(buffers)));
  return std::unique_ptr<State>(std::move(state));
}

Result<NativeState*> NativeExecutable::find_state(const RunContext& context) const {
  if (!is_stateful()) return static_cast<NativeState*>(nullptr);
  auto* state = dynamic_cast<NativeState*>(context.state);
  if (state != nullptr && state->owner() == this) return state;
  return Status(StatusCode::kInvalidArgument, "the model writes buffers: a run needs a state made by this model");
}

std::vector<NodePlan> NativeExecutable::plan() const {
  const std::lock_guard lock(mutex_);
  std::vector<NodePlan> plans;
  const auto shape = shapes_.find({});
  for (std::size_t index = 0; index < graph_->nodes.size(); ++index) {
    const ir::Node& node = graph_->nodes[index];
    std::size_t steps = 0;
    if (shape != shapes_.end()) {
      steps = static_cast<std::size_t>(
          std::ranges::count(shape->second->plan.steps, index, [](const Step& step) { return step.node; }));
    }
    std::string how = "own kernels, planned at the first run of a shape";
    if (shape != shapes_.end()) how = steps == 0 ? "no launch" : fmt::format("own kernels: {} launches", steps);
    plans.push_back({node.name, node.target, std::move(how)});
  }
  return plans;
}

std::string NativeExecutable::describe_runs() const {
  return fmt::format("planned launches of our own kernels on {}", machine_.name());
}

Status NativeExecutable::node_failure(std::size_t node, const Status& status) const {
  if (status.ok() || node >= graph_->nodes.size()) return status;
  Status named(
      status.code(),
      fmt::format("node '{}' ({}): {}", graph_->nodes[node].name, graph_->nodes[node].target, status.message()),
      status.vendor());
  for (const StatusDetail& detail : status.details()) named.with(detail.key, detail.value);
  return named;
}

Status NativeExecutable::upload_inputs(const Shape& shape, Frame& frame, std::span<const Tensor> inputs) {
  for (const PlannedInput& input : shape.plan.inputs) {
    const Tensor& given = inputs[input.position];
    void* const target = Addresses(frame.blocks).of(input.view);
    const std::size_t bytes = view_bytes(input.view);
    if (given.device() == machine_.name()) {
      if (!given.is_contiguous()) {
        return {StatusCode::kInvalidArgument,
                fmt::format("{} has gaps; inputs that lie on the device must have none", given.to_string())};
      }
      KPT_RETURN_IF_ERROR(frame.stream->copy_on_device(target, given.data(), bytes));
      continue;
    }
    if (given.device() != "cpu" || (given.data() == nullptr && bytes > 0)) {
      return {StatusCode::kInvalidArgument,
              fmt::format("{} is neither on the host nor on {}", given.to_string(), machine_.name())};
    }
    Tensor dense = given;
    if (!dense.is_contiguous()) {
      KPT_ASSIGN_OR_RETURN(dense, given.contiguous_copy());
      frame.kept.push_back(dense);
    }
    KPT_RETURN_IF_ERROR(frame.stream->copy_to_device(target, dense.data(), bytes));
  }
  return {};
}

Status NativeExecutable::launch_all(const Shape& shape, Frame& frame, RunContext& context) {
  const Block& flags = shape.plan.blocks[shape.plan.flag_block];
  if (flags.bytes > 0) {
    KPT_RETURN_IF_ERROR(frame.stream->clear(frame.blocks[shape.plan.flag_block], flags.bytes));
  }
  std::size_t at = 0;
  for (std::size_t node = 0; node <= graph_->nodes.size(); ++node) {
    KPT_RETURN_IF_ERROR(check_limits(context));
    const bool heard = context.observer != nullptr && node < graph_->nodes.size();
    if (heard) context.observer->begin_node(node);
    for (; at < frame.launches.size() && frame.launches[at].node == node; ++at) {
      const Status status = frame.stream->launch(*frame.launchers[at], frame.launches[at].launch);
      if (!status.ok()) return node_failure(node, status);
    }
    // Somebody who measures nodes wants their work and not its queueing.
    if (heard) KPT_RETURN_IF_ERROR(node_failure(node, wait_for(*frame.stream, context)));
    if (heard) context.observer->end_node(node);
  }
  return {};
}

Status NativeExecutable::fetch_outputs(const Shape& shape, Frame& frame, RunContext& context,
                                       std::vector<Tensor>& outputs) {
  const Addresses at(frame.blocks);
  outputs.resize(shape.plan.outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const PlannedOutput& output = shape.plan.outputs[i];
    if (!output.view) {
      KPT_ASSIGN_OR_RETURN(outputs[i], Tensor::empty(DType::kInt64, {}));
      outputs[i].elements<std::int64_t>()[0] = output.number;
      continue;
    }
    const View& view = *output.view;
    const std::size_t bytes = view_bytes(view);
    if (context.outputs_on_device) {
      if (!can_reuse(outputs[i], view, machine_.name())) {
        KPT_ASSIGN_OR_RETURN(auto buffer, machine_.allocate(std::max<std::size_t>(bytes, 1)));
        outputs[i] = Tensor::unchecked(std::move(buffer), view.dtype, view.dims, contiguous_strides(view.dims), 0);
      }
      KPT_RETURN_IF_ERROR(frame.stream->copy_on_device(outputs[i].data(), at.of(view), bytes));
      continue;
    }
    if (!can_reuse(outputs[i], view, "cpu")) {
      KPT_ASSIGN_OR_RETURN(outputs[i], Tensor::empty(view.dtype, view.dims));
    }
    KPT_RETURN_IF_ERROR(frame.stream->copy_to_host(outputs[i].data(), at.of(view), bytes));
  }
  return {};
}

Status NativeExecutable::run_in(const Shape& shape, Frame& frame, RunContext& context, std::span<const Tensor> inputs,
                                NativeState* state, std::vector<Tensor>& outputs) {
  KPT_RETURN_IF_ERROR(upload_inputs(shape, frame, inputs));
  const Addresses at(frame.blocks);
  for (const PlannedState& one : shape.plan.states) {
    const Tensor& held = state->current(one.input);
    KPT_RETURN_IF_ERROR(frame.stream->copy_on_device(at.of(one.before), held.data(), held.bytes()));
  }
  KPT_RETURN_IF_ERROR(launch_all(shape, frame, context));
  KPT_RETURN_IF_ERROR(fetch_outputs(shape, frame, context, outputs));
  for (const PlannedState& one : shape.plan.states) {
    const Tensor& held = state->next(one.input);
    KPT_RETURN_IF_ERROR(frame.stream->copy_on_device(held.data(), at.of(one.after), held.bytes()));
  }
  frame.flags.assign(shape.plan.flags.size(), 0);
  if (!frame.flags.empty()) {
    KPT_RETURN_IF_ERROR(frame.stream->copy_to_host(frame.flags.data(), frame.blocks[shape.plan.flag_block],
                                                   frame.flags.size() * sizeof(std::int32_t)));
  }
  KPT_RETURN_IF_ERROR(wait_for(*frame.stream, context));
  const auto outside = std::ranges::find_if(frame.flags, [](std::int32_t flag) { return flag != 0; });
  if (outside == frame.flags.end()) return {};
  const auto place = static_cast<std::size_t>(outside - frame.flags.begin());
  return node_failure(shape.plan.flags[place],
                      Status(StatusCode::kInvalidArgument, "an index is outside the axis that it chooses from"));
}

Status NativeExecutable::execute(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs) {
  KPT_RETURN_IF_ERROR(check_limits(context));
  KPT_ASSIGN_OR_RETURN(NativeState* const state, find_state(context));
  if (state != nullptr) KPT_RETURN_IF_ERROR(state->prepare_next());
  KPT_ASSIGN_OR_RETURN(const std::shared_ptr<Shape> shape, find_shape(inputs));
  KPT_ASSIGN_OR_RETURN(std::unique_ptr<Frame> frame, take_frame(*shape));
  Status status = run_in(*shape, *frame, context, inputs, state, outputs);
  if (!status.ok()) {  // copies may still be on their way
    frame->kept.insert(frame->kept.end(), inputs.begin(), inputs.end());
    std::ranges::move(outputs, std::back_inserter(frame->kept));
    outputs.clear();
    for (const std::uint32_t input : written_) {
      frame->kept.insert(frame->kept.end(), {state->current(input), state->next(input)});
    }
  }
  const bool rests = give_back(*shape, std::move(frame), !status.ok());
  if (!rests && state != nullptr) state->drop_next();
  return status;
}

Status NativeExecutable::run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                             Event* event) {
  if (event != nullptr) *event = Event();
  KPT_RETURN_IF_ERROR(execute(context, inputs, outputs));
  if (is_stateful()) static_cast<NativeState*>(context.state)->advance();
  return {};
}

}  // namespace kpt::native
