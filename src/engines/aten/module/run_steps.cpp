#include <ATen/Functions.h>
#include <ATen/ScalarOps.h>
#include <ATen/core/List.h>
#include <fmt/format.h>

#include "engines/aten/module/frame.h"
#include "engines/aten/module/guarded_call.h"
#include "engines/aten/module/thread_count.h"

namespace kpt::aten {
namespace {

using Kind = ArgumentSource::Kind;

void check_limits(const RunLimits& limits) {
  if (limits.cancelled != nullptr && limits.cancelled->load(std::memory_order_relaxed)) {
    throw RunStopped(StatusCode::kCancelled);
  }
  if (limits.deadline != nullptr && std::chrono::steady_clock::now() >= *limits.deadline) {
    throw RunStopped(StatusCode::kDeadlineExceeded);
  }
}

c10::Scalar to_scalar(const c10::IValue& value) {
  if (value.isInt()) return value.toInt();
  if (value.isBool()) return value.toBool();
  return value.toDouble();
}

c10::IValue item_value(const ArgumentSource& source, const Frame& frame) {
  switch (source.kind) {
    case Kind::kConstant: return source.constant;
    case Kind::kSlot: return frame.slots[source.slot];
    case Kind::kScalarTensor: return at::native::wrapped_scalar_tensor(to_scalar(frame.slots[source.slot]));
    case Kind::kFloat: return to_scalar(frame.slots[source.slot]).toDouble();
    case Kind::kInteger: return to_scalar(frame.slots[source.slot]).toLong();
    case Kind::kList: break;
  }
  throw CallFailure(CallCode::kFailed, "a list inside a list");
}

c10::IValue make_list(const ArgumentSource& source) {
  const auto count = static_cast<std::int64_t>(source.items.size());
  switch (source.element) {
    case ir::ElementKind::kTensor: {
      c10::List<at::Tensor> list;
      list.resize(static_cast<std::size_t>(count));
      return list;
    }
    case ir::ElementKind::kOptionalTensor: {
      c10::List<std::optional<at::Tensor>> list;
      list.resize(static_cast<std::size_t>(count));
      return list;
    }
    case ir::ElementKind::kFloat: {
      c10::List<double> list;
      list.resize(static_cast<std::size_t>(count));
      return list;
    }
    default: {
      c10::List<std::int64_t> list;
      list.resize(static_cast<std::size_t>(count));
      return list;
    }
  }
}

// The list of the last run is used again when no operator kept it.
const c10::IValue& gather_list(const ArgumentSource& source, Frame& frame) {
  c10::IValue& cached = frame.lists[source.list];
  if (cached.isNone() || cached.use_count() != 1) cached = make_list(source);
  const c10::ArrayRef<c10::IValue> present = cached.toListRef();
  auto* items = const_cast<c10::IValue*>(present.data());
  for (std::size_t index = 0; index < source.items.size(); ++index) {
    items[index] = item_value(source.items[index], frame);
  }
  return cached;
}

// Tensors in a cached list would outlive their last use.
void empty_list(const ArgumentSource& source, Frame& frame) {
  if (source.element != ir::ElementKind::kTensor && source.element != ir::ElementKind::kOptionalTensor) return;
  c10::IValue& cached = frame.lists[source.list];
  const c10::ArrayRef<c10::IValue> present = cached.toListRef();
  auto* items = const_cast<c10::IValue*>(present.data());
  for (std::size_t index = 0; index < source.items.size(); ++index) items[index] = at::Tensor();
}

void store_result(c10::IValue&& value, const ResultTarget& target, Frame& frame) {
  if (!target.is_list) {
    if (target.slots[0] >= 0) frame.slots[static_cast<std::size_t>(target.slots[0])] = std::move(value);
    return;
  }
  const c10::ArrayRef<c10::IValue> items = value.toListRef();
  if (items.size() != target.slots.size()) {
    throw CallFailure(CallCode::kFailed, "the operator gave another number of tensors than the file says");
  }
  for (std::size_t index = 0; index < items.size(); ++index) {
    if (target.slots[index] >= 0) frame.slots[static_cast<std::size_t>(target.slots[index])] = items[index];
  }
}

bool has_place(const Step& step, const Frame& frame) {
  return step.planned >= 0 && frame.planned[static_cast<std::size_t>(step.planned)].defined();
}

void run_boxed(const Step& step, Frame& frame) {
  torch::jit::Stack& stack = frame.stack;
  stack.clear();
  for (const ArgumentSource& source : step.arguments) {
    if (source.kind == Kind::kConstant) {
      stack.push_back(source.constant);
    } else if (source.kind == Kind::kSlot) {
      stack.push_back(frame.slots[source.slot]);
    } else if (source.kind == Kind::kList) {
      stack.push_back(gather_list(source, frame));
    } else {
      stack.push_back(item_value(source, frame));
    }
  }
  if (step.out_op && has_place(step, frame)) {
    stack.emplace_back(frame.planned[static_cast<std::size_t>(step.planned)]);
    step.out_op->callBoxed(stack);
  } else {
    step.op->callBoxed(stack);
  }
  if (stack.size() < step.results.size()) throw CallFailure(CallCode::kFailed, "the operator gave too few results");
  for (std::size_t index = 0; index < step.results.size(); ++index) {
    store_result(std::move(stack[index]), step.results[index], frame);
  }
  stack.clear();
  for (const ArgumentSource& source : step.arguments) {
    if (source.kind == Kind::kList) empty_list(source, frame);
  }
}

void run_number(const Step& step, Frame& frame) {
  torch::jit::Stack& stack = frame.stack;
  stack.clear();
  for (const ArgumentSource& source : step.arguments) stack.push_back(item_value(source, frame));
  c10::IValue result = step.number({stack.data(), stack.size()});
  stack.clear();
  store_result(std::move(result), step.results[0], frame);
}

bool is_true(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor().item().toBool();
  return to_scalar(value).toBool();
}

// The frame of body `index` of the step, which belongs to this frame.
Frame& body_frame(const Step& step, std::size_t index, Frame& frame) {
  const std::size_t place = std::size_t{2} * step.node + index;
  if (frame.bodies.size() <= place) frame.bodies.resize(place + 1);
  if (!frame.bodies[place]) frame.bodies[place] = std::make_unique<Frame>(*step.bodies[index]);
  return *frame.bodies[place];
}

// A failure inside a sub-graph names the node there; the caller adds its own.
void run_named(const CompiledGraph& body, Frame& frame, const RunLimits& limits) {
  std::uint32_t position = 0;
  try {
    run_steps(body, frame, limits, position);
  } catch (const RunStopped&) {
    throw;
  } catch (const std::exception& error) {
    if (position >= body.steps().size()) throw;
    const ir::Node& node = body.graph().nodes[body.steps()[position].node];
    throw std::runtime_error(fmt::format("inside it, node '{}' ({}): {}", node.name, node.target, first_line(error)));
  }
}

std::vector<c10::IValue> run_body(const CompiledGraph& body, Frame& frame, const std::vector<c10::IValue>& operands,
                                  RunLimits limits) {
  limits.observer = nullptr;  // its node numbers are another graph's
  const ir::Graph& graph = body.graph();
  for (std::size_t index = 0; index < operands.size(); ++index) {
    if (graph.inputs[index].value != ir::kNoValue)
      frame.slots[ir::index_of(graph.inputs[index].value)] = operands[index];
  }
  run_named(body, frame, limits);
  std::vector<c10::IValue> results;
  for (const ir::GraphOutput& output : graph.outputs) {
    const ir::ValueId* id = output.value.value_id();
    if (id != nullptr) {
      results.push_back(frame.slots[ir::index_of(*id)]);
    } else if (const auto* number = std::get_if<std::int64_t>(&output.value.value)) {
      results.emplace_back(*number);
    } else if (const auto* real = std::get_if<double>(&output.value.value)) {
      results.emplace_back(*real);
    } else if (const auto* truth = std::get_if<bool>(&output.value.value)) {
      results.emplace_back(*truth);
    } else {
      results.emplace_back();
    }
  }
  for (c10::IValue& slot : frame.slots) slot = c10::IValue();
  return results;
}

void store_results(std::vector<c10::IValue> values, const Step& step, Frame& frame) {
  std::size_t next = 0;
  for (const ResultTarget& target : step.results) {
    for (const std::int64_t slot : target.slots) {
      if (slot >= 0) frame.slots[static_cast<std::size_t>(slot)] = std::move(values[next]);
      ++next;
    }
  }
}

void run_cond(const Step& step, Frame& frame, const RunLimits& limits) {
  const std::size_t branch = is_true(item_value(step.arguments[0], frame)) ? 0 : 1;
  std::vector<c10::IValue> operands;
  for (std::size_t index = 1; index < step.arguments.size(); ++index) {
    operands.push_back(item_value(step.arguments[index], frame));
  }
  store_results(run_body(*step.bodies[branch], body_frame(step, branch, frame), operands, limits), step, frame);
}

void run_while(const Step& step, Frame& frame, const RunLimits& limits) {
  std::vector<c10::IValue> values;
  for (const ArgumentSource& source : step.arguments) values.push_back(item_value(source, frame));
  const std::size_t carried = step.bodies[1]->graph().outputs.size();
  bool turned = false;
  for (check_limits(limits); is_true(run_body(*step.bodies[0], body_frame(step, 0, frame), values, limits)[0]);
       check_limits(limits)) {
    std::vector<c10::IValue> next = run_body(*step.bodies[1], body_frame(step, 1, frame), values, limits);
    for (std::size_t index = 0; index < carried; ++index) values[index] = std::move(next[index]);
    turned = true;
  }
  values.resize(carried);
  // Results are the loop's own, as in PyTorch: a later node may write them, and what went in must not change with them.
  for (std::size_t index = 0; index < carried && !turned; ++index) {
    if (values[index].isTensor()) values[index] = values[index].toTensor().clone();
  }
  store_results(std::move(values), step, frame);
}

void run_step(const Step& step, Frame& frame, const RunLimits& limits) {
  switch (step.kind) {
    case Step::Kind::kBoxed: run_boxed(step, frame); break;
    case Step::Kind::kTyped:
      if (has_place(step, frame)) {
        step.typed(step, frame);
      } else {
        run_boxed(step, frame);
      }
      break;
    case Step::Kind::kReplaced: step.typed(step, frame); break;
    case Step::Kind::kNumber: run_number(step, frame); break;
    case Step::Kind::kOwn: {
      OwnCall call(step, frame);
      step.own->node->run(call);
      break;
    }
    case Step::Kind::kCond: run_cond(step, frame, limits); break;
    case Step::Kind::kWhile: run_while(step, frame, limits); break;
  }
}

}  // namespace

Frame::Frame(const CompiledGraph& graph)
    : device(graph.device()),
      slots(graph.graph().values.size()),
      lists(graph.list_count()),
      planned(graph.planned().size()),
      views(std::size_t{3} * graph.scratch_count()) {
  stack.reserve(graph.max_arguments() + 4);
}

void apply_plan(std::shared_ptr<const MemoryPlan> plan, Frame& frame) {
  if (frame.plan == plan) return;
  for (at::Tensor& view : frame.views) view = at::Tensor();
  if (frame.arena_bytes < plan->arena_bytes) {
    for (at::Tensor& tensor : frame.planned) tensor = at::Tensor();
    frame.arena.reset();
    frame.arena_bytes = 0;
    frame.arena.reset(
        std::aligned_alloc(64, (plan->arena_bytes + 63) / 64 * 64));  // NOLINT(cppcoreguidelines-no-malloc)
    if (!frame.arena) throw std::bad_alloc();
    frame.arena_bytes = plan->arena_bytes;
  }
  for (std::size_t index = 0; index < plan->places.size(); ++index) {
    const MemoryPlan::Place& place = plan->places[index];
    frame.planned[index] = at::Tensor();
    if (!place.planned) continue;
    frame.planned[index] = at::from_blob(static_cast<char*>(frame.arena.get()) + place.offset, place.sizes,
                                         place.strides, at::TensorOptions().dtype(place.dtype));
  }
  frame.plan = std::move(plan);
}

void run_steps(const CompiledGraph& graph, Frame& frame, const RunLimits& limits, std::uint32_t& position) {
  take_thread_count();
  const bool limited = limits.deadline != nullptr || limits.cancelled != nullptr;
  for (position = 0; position < graph.steps().size(); ++position) {
    const Step& step = graph.steps()[position];
    if (limited) check_limits(limits);
    if (limits.observer != nullptr) limits.observer->begin_node(step.node);
    run_step(step, frame, limits);
    if (limits.observer != nullptr) limits.observer->end_node(step.node);
    for (const std::uint32_t slot : step.release) frame.slots[slot] = c10::IValue();
  }
}

}  // namespace kpt::aten
