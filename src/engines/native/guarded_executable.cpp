#include "engines/native/guarded_executable.h"

#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "base/own_memory.h"
#include "engines/native/native_state.h"

namespace kpt::native {
namespace {

// Weights that stay until the load is over, whoever still waits for it. Memory of the caller's is copied as a whole:
// what shares it, shares the copy.
Result<Weights> keep(const Weights& weights) {
  Weights kept;
  std::map<const Buffer*, std::shared_ptr<Buffer>> copies;
  for (const auto& [name, tensor] : weights) {
    if (!tensor.defined() || tensor.buffer()->owns_memory()) {
      kept.emplace(name, tensor);
      continue;
    }
    const Buffer& given = *tensor.buffer();
    std::shared_ptr<Buffer>& copy = copies[&given];
    if (copy == nullptr) {
      const std::int64_t bytes[] = {static_cast<std::int64_t>(given.bytes())};
      KPT_ASSIGN_OR_RETURN(
          const Tensor made,
          Tensor::from_bytes(DType::kUInt8, bytes, {static_cast<const std::byte*>(given.data()), given.bytes()}));
      copy = made.buffer();
    }
    kept.emplace(name, Tensor::unchecked(copy, tensor.dtype(), tensor.dims(), tensor.strides(), tensor.offset()));
  }
  return kept;
}

}  // namespace

// The caller's observer, until the caller goes.
class GuardedExecutable::ObserverLink final : public NodeObserver {
 public:
  explicit ObserverLink(NodeObserver* observer) : observer_(observer) {}
  void begin_node(std::size_t node) override {
    const std::lock_guard lock(mutex_);
    if (observer_ != nullptr) observer_->begin_node(node);
  }
  void end_node(std::size_t node) override {
    const std::lock_guard lock(mutex_);
    if (observer_ != nullptr) observer_->end_node(node);
  }
  void cut() {
    const std::lock_guard lock(mutex_);
    observer_ = nullptr;
  }

 private:
  std::mutex mutex_;
  NodeObserver* observer_;
};

// Buffers that a run may still use when their session goes on or is gone.
struct GuardedExecutable::SharedState {
  std::mutex mutex;  // held by work that uses them
  std::unique_ptr<NativeState> native;
};

// One run, with shares of all that it uses.
struct GuardedExecutable::Run {
  Run(std::shared_ptr<NativeExecutable> executable, std::shared_ptr<SharedState> buffers, const RunContext& given)
      : native(std::move(executable)), state(std::move(buffers)), context(given), observer(given.observer) {
    context.cancelled = unwanted.get();
    if (given.observer != nullptr) context.observer = &observer;
    if (state != nullptr) context.state = state->native.get();
  }

  void execute() {
    std::unique_lock<std::mutex> lock;
    if (state != nullptr) lock = std::unique_lock(state->mutex);
    if (*unwanted) return;  // given up while it waited for the buffers, which are a later run's by now
    status = native->execute(context, inputs, outputs);
  }

  std::shared_ptr<NativeExecutable> native;
  std::shared_ptr<SharedState> state;  // null for a model that writes nothing
  std::vector<Tensor> inputs, outputs;
  std::shared_ptr<std::atomic<bool>> unwanted = std::make_shared<std::atomic<bool>>(false);
  RunContext context;
  ObserverLink observer;
  Status status{StatusCode::kCancelled, "the run was cancelled"};
};

class GuardedExecutable::GuardedState final : public State {
 public:
  GuardedState(const void* owner, std::shared_ptr<SharedState> shared, std::shared_ptr<DeviceCalls> calls)
      : owner_(owner), shared_(std::move(shared)), calls_(std::move(calls)) {}
  GuardedState(const GuardedState&) = delete;
  GuardedState& operator=(const GuardedState&) = delete;
  ~GuardedState() override { calls_->let_go(std::move(shared_)); }

  Status reset() override {
    return ask([](NativeState& state) { return state.reset(); });
  }
  std::vector<std::string> names() const override { return shared_->native->names(); }
  Result<Tensor> read(std::string_view name) const override {
    return ask([name = std::string(name)](NativeState& state) { return state.read(name); });
  }
  Status write(std::string_view name, const Tensor& value) override {
    KPT_ASSIGN_OR_RETURN(Tensor kept, own_memory(value));
    return ask([name = std::string(name), kept](NativeState& state) { return state.write(name, kept); });
  }

  const void* owner() const { return owner_; }
  const std::shared_ptr<SharedState>& shared() const { return shared_; }

 private:
  // What was given up while it waited for the buffers leaves them alone.
  template <typename Work>
  std::invoke_result_t<Work&, NativeState&> ask(Work work) const {
    Patience patience;
    patience.unwanted = std::make_shared<std::atomic<bool>>(false);
    const auto locked = [shared = shared_, unwanted = patience.unwanted,
                         work = std::move(work)]() -> std::invoke_result_t<Work&, NativeState&> {
      const std::lock_guard lock(shared->mutex);
      if (*unwanted) return Status(StatusCode::kCancelled, "nobody waits for it any more");
      return work(*shared->native);
    };
    return calls_->ask(locked, patience);
  }

  const void* owner_;
  std::shared_ptr<SharedState> shared_;
  std::shared_ptr<DeviceCalls> calls_;
};

Result<std::unique_ptr<Executable>> GuardedExecutable::load(std::shared_ptr<const ir::Graph> graph,
                                                            const Weights& weights, std::shared_ptr<Machine> machine,
                                                            std::shared_ptr<DeviceCalls> calls) {
  KPT_ASSIGN_OR_RETURN(Weights kept, keep(weights));
  KPT_ASSIGN_OR_RETURN(auto native,
                       calls->ask([graph = std::move(graph), kept = std::move(kept), machine = std::move(machine)] {
                         return NativeExecutable::load(graph, kept, machine);
                       }));
  return std::unique_ptr<Executable>(new GuardedExecutable(std::move(native), std::move(calls)));
}

Result<std::unique_ptr<State>> GuardedExecutable::make_state() const {
  KPT_ASSIGN_OR_RETURN(auto shared, calls_->ask([native = native_]() -> Result<std::shared_ptr<SharedState>> {
    KPT_ASSIGN_OR_RETURN(std::unique_ptr<State> state, native->make_state());
    auto made = std::make_shared<SharedState>();
    made->native.reset(static_cast<NativeState*>(state.release()));
    return made;
  }));
  return std::unique_ptr<State>(std::make_unique<GuardedState>(this, std::move(shared), calls_));
}

std::vector<NodePlan> GuardedExecutable::plan() const {
  auto plans = calls_->ask([native = native_]() -> Result<std::vector<NodePlan>> { return native->plan(); });
  return plans.ok() ? std::move(plans).value() : std::vector<NodePlan>();
}

Result<std::shared_ptr<GuardedExecutable::SharedState>> GuardedExecutable::find_state(const RunContext& context) const {
  if (!is_stateful()) return std::shared_ptr<SharedState>();
  const auto* state = dynamic_cast<const GuardedState*>(context.state);
  if (state != nullptr && state->owner() == this) return state->shared();
  return Status(StatusCode::kInvalidArgument, "the model writes buffers: a run needs a state made by this model");
}

Status GuardedExecutable::run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                              Event* event) {
  if (event != nullptr) *event = Event();
  KPT_ASSIGN_OR_RETURN(auto state, find_state(context));
  const auto run = std::make_shared<Run>(native_, std::move(state), context);
  for (const Tensor& input : inputs) {
    KPT_ASSIGN_OR_RETURN(Tensor own, own_memory(input));
    run->inputs.push_back(std::move(own));
  }
  run->outputs = std::exchange(outputs, std::vector<Tensor>());
  for (Tensor& output : run->outputs) {  // memory of the caller's may be gone when the run comes to it
    if (output.defined() && !output.buffer()->owns_memory()) output = Tensor();
  }
  Status ended = calls_->run([run] { run->execute(); }, {context.deadline, context.cancelled, run->unwanted});
  if (!ended.ok()) {
    run->observer.cut();
    return ended;
  }
  outputs = std::move(run->outputs);
  if (run->status.ok() && run->state != nullptr) {
    const std::lock_guard lock(run->state->mutex);
    run->state->native->advance();
  }
  return run->status;
}

}  // namespace kpt::native
