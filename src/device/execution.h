// How a graph becomes something that runs. Three steps, each with its own place in time:
//
//   Target::compile(graph)            needs no hardware and no weights; what comes out can be stored
//   Backend::load(program, weights)   needs the devices
//   Executable::run(inputs)           many threads at once
//
// Implemented under src/backends. Nobody else branches on a backend's name: ask Capabilities. Memory has no address
// unless Capabilities::raw_pointers says so, and an engine may allocate its own outputs.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/activity.h"
#include "device/compile_figures.h"
#include "device/fp8_inputs.h"
#include "device/memory_statistics.h"
#include "device/placement.h"
#include "device/weights.h"
#include "ir/graph.h"
#include "ir/symbolic.h"
#include "kpt/device.h"
#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

struct Capabilities {
  bool host_processor = false;  // it is this machine's processor, with BackendContext::threads threads
  bool raw_pointers = false;    // tensors have addresses the host (cpu) or kernels can use
  bool streams = false;         // work is queued; Event::wait() is not a formality
  bool graph_capture = false;
  bool dynamic_shapes = false;             // one Executable serves all shapes its symbols allow
  bool sizes_cost = false;                 // each new value of a symbol costs a compile or a capture
  bool whole_graph_only = false;           // takes graphs, not nodes: a part of one must be a graph of its own
  bool product_takes_residual = true;      // adding one behind a product costs no pass of its own over memory
  bool products_give_either_type = false;  // kpt.linear takes and gives float32 or bfloat16, whatever the other is
  bool attention_adds_masks = false;       // kpt.attention turns truth values into numbers to add, at every node
  std::size_t alignment_bytes = 64;
  std::vector<DType> dtypes;         // it can compute in
  std::vector<DType> matrix_dtypes;  // products of matrices in these are faster than in float32
  // Products in these may be faster, which nobody knows: a level takes them only where it measures whole models.
  std::vector<DType> tried_dtypes;
  std::vector<std::string> own_operators;  // of ir/own_operators.h, by target, that it runs
  // Of those: which take float16 where they take bfloat16. All take float32 and bfloat16.
  std::vector<std::string> float16_operators;
  std::vector<std::string> features;  // architecture and instruction sets, in small letters: "aarch64", "i8mm"
  // Products of at most so many rows are faster with weights alone in int8 than in any matrix type; 0: never.
  std::int64_t weight_only_rows = 0;
  // What must divide both extents of a weight for its products of int8 to be fast; others are slow, not wrong.
  std::int64_t int8_multiple = 1;
  // How many products of int8 one sum may have; with more it could leave 32 bits.
  std::int64_t int8_depth = 131072;
  Fp8Inputs fp8_inputs = Fp8Inputs::kE4M3;  // what passes make of inputs of FP8 products; E4M3 where there is no other
  bool fp8_row_scales = true;               // each row of such an input has a scale of its own
};

// Whether a node can run, and if not, why.
struct Support {
  bool supported = true;
  std::string reason;  // one clause, empty when supported
};

// How a node will be executed, as `kpt explain` shows it.
struct NodePlan {
  std::string node;
  std::string target;
  std::string how;  // "typed", "planned", "boxed", or "own: KERNEL (why)"
};

// A compiled graph, not yet tied to weights or devices.
class Program {
 public:
  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  virtual ~Program() = default;

  virtual std::string_view target() const = 0;  // Target::name() of the one that made it
  virtual const ir::Graph& graph() const = 0;   // what it computes
  // Bytes that the same target's deserialize() takes back.
  virtual Result<std::string> serialize() const = 0;
  // What the compiler says about the program; null where it says nothing. Lives as long as the program.
  virtual const CompileFigures* figures() const { return nullptr; }
  // How nodes will be executed, where that is known without weights and devices; empty where it is not.
  virtual std::vector<NodePlan> plan() const { return {}; }
  // Where its parts run; null when all of it runs on one device. Lives as long as the program.
  virtual const Placement* placement() const { return nullptr; }
};

// A kind of hardware, present or not. Thread safe.
class Target {
 public:
  Target() = default;
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  virtual ~Target() = default;

  virtual std::string_view name() const = 0;  // "cpu", "nvidia:sm_90", "tpu:v5e"
  virtual const Capabilities& capabilities() const = 0;
  // One answer per node, in the order of graph.nodes.
  virtual Result<std::vector<Support>> supports(const ir::Graph& graph) const = 0;
  // Where the parts of the graph would run, or what to do about nodes that cannot. Empty: nothing beside supports().
  virtual Placement place(const ir::Graph& graph) const {
    (void)graph;
    return {};
  }
  // Fails with kUnsupported when a node is not supported; the message lists all of them.
  virtual Result<std::unique_ptr<Program>> compile(ir::Graph graph) const = 0;
  virtual Result<std::unique_ptr<Program>> deserialize(std::string_view bytes) const = 0;
  // As compile(), for these values of the graph's symbols and no others: for hardware that takes fixed sizes only.
  // Fails also with kInvalidArgument when a symbol has no value or one out of its range.
  virtual Result<std::unique_ptr<Program>> compile_sized(ir::Graph graph, const ir::Bindings& sizes) const {
    if (sizes.entries().empty()) return compile(std::move(graph));
    return Status(StatusCode::kUnsupported, "programs for " + std::string(name()) + " are not made for given sizes");
  }
  // Published rates of one device of this kind; null where this tree has none.
  virtual const HardwareRates* rates() const { return nullptr; }
  // Options of the backend that change what runs compute, as text: part of the key of whatever is kept about results.
  virtual std::string arithmetic() const { return {}; }
  // What compiling for it took so far; nothing where nobody counts.
  virtual std::optional<CompileStatistics> compile_statistics() const { return std::nullopt; }
};

// Queued work. Copyable; an empty one is done.
class Event {
 public:
  class Impl {
   public:
    virtual ~Impl() = default;
    virtual Status wait() = 0;
    virtual bool done() const = 0;
  };
  Event() = default;
  explicit Event(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  Status wait() const { return impl_ ? impl_->wait() : Status(); }
  bool done() const { return !impl_ || impl_->done(); }

 private:
  std::shared_ptr<Impl> impl_;
};

// One device that is here.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;
  virtual const Target& target() const = 0;
  virtual Result<Tensor> allocate(DType dtype, std::span<const std::int64_t> dims) = 0;
  virtual Result<Tensor> upload(const Tensor& host) = 0;  // the host tensor may be strided
  virtual Result<Tensor> download(const Tensor& tensor) = 0;

  // The same, begun and not waited for: until `event`, which must be given, is done, the result holds nothing and the
  // source may not be written. A run that still writes the source must be waited for first. Memory of both may be let
  // go at any time. Where nothing is queued, all is done at once.
  virtual Result<Tensor> begin_upload(const Tensor& host, Event* event);
  virtual Result<Tensor> begin_download(const Tensor& tensor, Event* event);
  // A tensor here, likewise, of one that lies on `from`, which may be this device: from memory to memory where one
  // library drives both, elsewhere over the host, where the first half is waited for. On the host itself no copy is
  // made.
  virtual Result<Tensor> begin_copy(Device& from, const Tensor& tensor, Event* event);

  // Runs `work` on this thread and tells what the device and its libraries did meanwhile. Fails as `work` does, and
  // with kUnsupported where nothing listens. One at a time in a process.
  virtual Result<std::vector<Activity>> record(const std::function<Status()>& work) {
    (void)work;
    return Status(StatusCode::kUnsupported, "what happens on " + info().name + " cannot be recorded here");
  }
  // What its memory holds now. Fails with kUnsupported where nobody counts.
  virtual Result<MemoryStatistics> memory() {
    return Status(StatusCode::kUnsupported, "the memory of " + info().name + " is not counted");
  }
  // Lets the peaks start anew from what is in use now. Fails with kUnsupported where there are none.
  virtual Status reset_peak_memory() {
    return {StatusCode::kUnsupported, "the peak of memory of " + info().name + " cannot be reset"};
  }
  // Gives back what is kept for later. Fails with kUnsupported where nothing is.
  virtual Status empty_cache() {
    return {StatusCode::kUnsupported, "no memory of " + info().name + " is kept for later"};
  }
  // Published rates of this device; null where this tree has none.
  virtual const HardwareRates* rates() const { return target().rates(); }
};

// Buffers that a model writes (KV caches, counters): one per sequence or session, made by Executable::make_state().
// Not thread safe: one run at a time uses a State.
class State {
 public:
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  virtual ~State() = default;

  // Back to what the file holds.
  virtual Status reset() = 0;
  // The names of the buffers, and a copy of one on the host.
  virtual std::vector<std::string> names() const = 0;
  virtual Result<Tensor> read(std::string_view name) const = 0;
  virtual Status write(std::string_view name, const Tensor& value) = 0;
};

// Hears of every node of a run, from the thread that runs it. Engines that run the graph as a whole call it never.
class NodeObserver {
 public:
  virtual ~NodeObserver() = default;
  virtual void begin_node(std::size_t node) = 0;  // index in the graph's nodes
  virtual void end_node(std::size_t node) = 0;    // not called when the node failed
  // Memory that a library allocated for a tensor since begin_node(); only told to those who want it.
  virtual bool wants_allocations() const { return false; }
  virtual void tensor_allocated(std::size_t bytes) { (void)bytes; }
};

struct RunContext {
  State* state = nullptr;  // needed by models that write buffers (Executable::is_stateful)
  std::optional<std::chrono::steady_clock::time_point> deadline;  // looked at between nodes
  const std::atomic<bool>* cancelled = nullptr;                   // likewise
  NodeObserver* observer = nullptr;
  bool outputs_on_device = false;  // outputs stay where they were made; otherwise they come to the host
  bool as_written = false;         // an option that lets float32 be rounded more (TF32) does not count
};

// Loaded on one or several devices. Thread safe: everything a run changes lives in its RunContext.
class Executable {
 public:
  Executable() = default;
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  virtual ~Executable() = default;

  virtual std::string_view device() const = 0;  // where it really runs
  virtual bool is_stateful() const = 0;
  virtual Result<std::unique_ptr<State>> make_state() const = 0;
  virtual std::vector<NodePlan> plan() const = 0;
  // The rows of a batch must be a multiple of it: more than 1 where several devices share them.
  virtual std::int64_t row_multiple() const { return 1; }
  // How runs are started beyond that, one clause; empty when there is nothing to say.
  virtual std::string describe_runs() const { return {}; }

  // `inputs`: one per kUser input of the graph, in order, on this device or with an address on the host. They have been
  // checked against the signature (runtime/input_check.h). `outputs`: one per user output that is a value. What it held
  // is replaced, and its memory used again where the caller kept no other share in it: passing the same vector to every
  // run makes steady runs allocate nothing here.
  // Fails with kDeadlineExceeded, kCancelled, kOutOfMemory, kVendorLibrary (naming the node), kInvalidArgument.
  virtual Status run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                     Event* event = nullptr) = 0;
};

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;  // "cpu", "nvidia", …
  virtual std::vector<const Target*> targets() const = 0;
  // Devices that can be used now. Fails with the reason when the vendor's stack cannot be used at all.
  virtual Result<std::vector<Device*>> devices() = 0;
  // The same for those who want the devices of one name, their own or their target's: others may be missing, and what
  // they need is not waited for.
  virtual Result<std::vector<Device*>> devices_named(std::string_view /*name*/) { return devices(); }
  // Fails with kInvalidArgument when the program is for another target, a weight is missing or has another shape.
  virtual Result<std::unique_ptr<Executable>> load(std::shared_ptr<const Program> program, const Weights& weights,
                                                   std::span<Device* const> devices) = 0;
};

}  // namespace kpt
