#include "engines/xla/execution/xla_run.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "base/own_memory.h"

namespace kpt {
namespace {

bool can_reuse(const Tensor& tensor, DType dtype, std::span<const std::int64_t> dims) {
  return tensor.defined() && tensor.dtype() == dtype && std::ranges::equal(tensor.dims(), dims) &&
         tensor.is_contiguous() && tensor.device() == "cpu" && tensor.data() != nullptr &&
         tensor.buffer()->writable() && tensor.buffer().use_count() == 1;
}

// Element by element into a tensor whose elements lie at strides.
void scatter(const Tensor& target, const Tensor& source) {
  const std::size_t width = element_bytes(target.dtype());
  const Dims& dims = target.dims();
  std::vector<std::int64_t> place(dims.size(), 0);
  const auto* from = static_cast<const std::byte*>(source.data());
  auto* to = static_cast<std::byte*>(target.data());
  for (std::int64_t count = target.element_count(); count > 0; --count, from += width) {
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < dims.size(); ++axis) offset += place[axis] * target.strides()[axis];
    std::memcpy(to + offset * static_cast<std::int64_t>(width), from, width);
    for (std::size_t axis = dims.size(); axis-- > 0;) {
      if (++place[axis] < dims[axis]) break;
      place[axis] = 0;
    }
  }
}

}  // namespace

Result<std::shared_ptr<XlaRun>> XlaRun::make(std::shared_ptr<const XlaModel> model, ShapePrograms::Program program,
                                             std::span<const Tensor> inputs, XlaState* state,
                                             std::vector<Tensor> outputs, XlaRunOptions options) {
  const std::shared_ptr<XlaRun> made(
      new XlaRun(std::move(model), std::move(program), std::move(outputs), std::move(options)));
  KPT_RETURN_IF_ERROR(made->take_inputs(inputs));
  if (state != nullptr) made->take_buffers(*state);
  return made;
}

Status XlaRun::take_inputs(std::span<const Tensor> inputs) {
  given_.resize(inputs.size());
  const xla::LoweredModule& module = program_->module;
  const auto take = [&](std::uint32_t index, bool is_read) -> Status {
    const auto position = model_->user_position[index];
    if (!position) return {};
    Given& given = given_.at(*position);
    given.tensor = inputs[*position];
    KPT_ASSIGN_OR_RETURN(given.ours, find_xla_buffer(given.tensor, *model_->client));
    if (given.ours != nullptr) given.content = given.ours->content();
    if (!is_read) return {};
    if (given.ours != nullptr && given.ours->device() != model_->device) {
      return {StatusCode::kInvalidArgument, fmt::format("{} lies on {}; upload it to {}", given.tensor.to_string(),
                                                        given.ours->device(), model_->device)};
    }
    given.source = given.tensor;
    if (options_.may_be_left) {
      KPT_ASSIGN_OR_RETURN(given.source, own_memory(given.tensor));
    }
    return {};
  };
  for (std::size_t i = module.output_count; i < module.results.size(); ++i) {
    KPT_RETURN_IF_ERROR(take(module.results[i].index, false));
  }
  for (const xla::ModulePlace& argument : module.arguments) KPT_RETURN_IF_ERROR(take(argument.index, true));
  return {};
}

void XlaRun::take_buffers(XlaState& state) {
  replaced_ = state.take_replaced();
  for (std::size_t i = 0; i < program_->module.arguments.size(); ++i) {
    const std::uint32_t index = program_->module.arguments[i].index;
    if (model_->user_position[index] || !model_->is_written[index]) continue;
    const std::string& name = graph().inputs[index].name;
    if (state.is_own(name)) given_away_.push_back(i);  // before we have a share of our own
    state_.emplace(index, state.current(name));
  }
}

Result<DeviceParts> XlaRun::give_input(const Given& given, Cut cut) const {
  const pjrt::Client& client = *model_->client;
  if (given.content != nullptr && model_->devices.count == 1) return DeviceParts{given.content};
  if (given.content != nullptr) {  // it lies on the first device
    KPT_ASSIGN_OR_RETURN(const Tensor host, given.content->download());
    return upload_parts(client, host, pjrt::HostMemory::kBorrowed, cut, model_->devices);
  }
  const bool is_copy = given.source.buffer() != given.tensor.buffer();  // which nobody else can write
  const bool on_host = client.platform_name() == "cpu";
  const pjrt::HostMemory shared =
      options_.may_be_left && !is_copy ? pjrt::HostMemory::kCopied : pjrt::HostMemory::kShared;
  return upload_parts(client, given.source, on_host ? shared : pjrt::HostMemory::kBorrowed, cut, model_->devices);
}

Result<XlaRun::Arguments> XlaRun::gather() const {
  Arguments arguments;
  arguments.buffers.resize(model_->devices.count);
  for (std::size_t i = 0; i < program_->module.arguments.size(); ++i) {
    const std::uint32_t index = program_->module.arguments[i].index;
    DeviceParts given;
    const DeviceParts* parts = &model_->weights[index];
    if (const auto position = model_->user_position[index]) {
      KPT_ASSIGN_OR_RETURN(given, give_input(given_[*position], program_->cuts.arguments[i]));
      arguments.uploaded.insert(arguments.uploaded.end(), given.begin(), given.end());
      parts = &given;
    } else if (model_->is_written[index]) {
      parts = &state_.at(index);
    }
    for (std::size_t device = 0; device < parts->size(); ++device) {
      arguments.buffers[device].push_back((*parts)[device].get());
    }
  }
  return arguments;
}

Status XlaRun::fetch_written(const pjrt::Execution& execution) {
  const xla::LoweredModule& module = program_->module;
  for (std::size_t i = module.output_count; i < module.results.size(); ++i) {
    const xla::ModulePlace& place = module.results[i];
    Written& written = written_.emplace_back();
    for (const auto& results : execution.outputs) {
      const pjrt::DeviceBuffer& part = *results[i];
      if (part.dtype() != place.dtype || !std::ranges::equal(part.dims(), place.dims)) {  // a stored program may differ
        return {StatusCode::kInternal,
                fmt::format("the program gives {}{} for what the model writes to '{}'", to_string(part.dtype()),
                            part.dims().to_string(), graph().inputs[place.index].name)};
      }
      written.parts.push_back(results[i]);
    }
    const auto position = model_->user_position[place.index];
    if (!position) continue;
    const Tensor& target = given_[*position].tensor;
    if (target.dtype() != place.dtype || !std::ranges::equal(target.dims(), place.dims)) {
      return {StatusCode::kInternal,
              fmt::format("the model writes another type or shape to its input, which is {}", target.to_string())};
    }
    if (given_[*position].ours != nullptr) {
      written.parts.resize(1);
      continue;
    }
    if (target.data() != nullptr && target.buffer()->writable()) {
      KPT_ASSIGN_OR_RETURN(written.host, written.parts.front()->download());
    }
    written.parts.clear();
  }
  has_written_ = true;
  return {};
}

Status XlaRun::start_outputs(const pjrt::Execution& execution, std::vector<pjrt::Completion>& pending) {
  const xla::LoweredModule& module = program_->module;
  outputs_.resize(module.output_count);
  for (std::size_t i = 0; i < module.output_count; ++i) {
    const xla::ModulePlace& place = module.results[i];
    if (options_.on_device && model_->devices.count == 1) {
      outputs_[i] = make_xla_tensor(model_->device, execution.outputs.front()[i], *options_.on_device);
      continue;
    }
    if (!can_reuse(outputs_[i], place.dtype, place.dims)) {
      KPT_ASSIGN_OR_RETURN(outputs_[i], Tensor::empty(place.dtype, place.dims));
    }
    DeviceParts parts;
    for (const auto& results : execution.outputs) parts.push_back(results[i]);
    KPT_RETURN_IF_ERROR(start_download(parts, program_->cuts.results[i], outputs_[i], pending));
  }
  return {};
}

// What several devices made lies in the host's memory by now.
Status XlaRun::upload_outputs() {
  if (!options_.on_device || model_->devices.count == 1) return {};
  for (Tensor& output : outputs_) {
    KPT_ASSIGN_OR_RETURN(auto content,
                         model_->client->upload(output, pjrt::HostMemory::kCopied, model_->devices.first));
    output = make_xla_tensor(model_->device, std::move(content), *options_.on_device);
  }
  return {};
}

Status XlaRun::run_program() {
  KPT_ASSIGN_OR_RETURN(const Arguments arguments, gather());
  if (unwanted_) return {StatusCode::kCancelled, "nobody waits for the run any more"};
  queued_ = true;
  KPT_ASSIGN_OR_RETURN(pjrt::Execution execution, program_->executable->execute(arguments.buffers, given_away_));
  // Before the program is through: the plugin begins to copy by itself when it is.
  std::vector<pjrt::Completion> pending;
  const Status started = start_outputs(execution, pending);
  Status status = execution.wait();
  if (status.ok() && unwanted_) status = {StatusCode::kCancelled, "nobody waits for the run any more"};
  if (status.ok()) status = fetch_written(execution);
  if (status.ok()) status = started;
  // Whatever happened, the plugin may still write there. Copies of what a failed program left out fail, too, and say
  // less than the program did.
  for (pjrt::Completion& done : pending) {
    Status copied = done.wait();
    if (status.ok()) status = std::move(copied);
  }
  return status.ok() ? upload_outputs() : status;
}

void XlaRun::execute() {
  try {
    replaced_.clear();  // on this thread: the plugin may take its time
    status_ = run_program();
  } catch (const std::bad_alloc&) {  // finish() must still say what became of the state
    status_ = {StatusCode::kOutOfMemory, "there is no memory left on the host for the run"};
  }
  // Also here, and not by the caller when this run goes.
  if (!has_written_) written_.clear();
  for (Given& given : given_) given.content.reset();
}

void XlaRun::hand_back_written(XlaState* state) {
  const xla::LoweredModule& module = program_->module;
  for (std::size_t i = 0; i < written_.size(); ++i) {
    const std::uint32_t index = module.results[module.output_count + i].index;
    const auto position = model_->user_position[index];
    if (!position) {
      state->replace(graph().inputs[index].name, std::move(written_[i].parts));
      continue;
    }
    const Given& given = given_[*position];
    if (given.ours != nullptr) {
      given.ours->replace(written_[i].parts.front());
    } else if (written_[i].host.defined()) {
      scatter(given.tensor, written_[i].host);
    }
  }
}

Status XlaRun::finish(XlaState* state, std::vector<Tensor>& outputs) {
  if (status_.ok()) outputs = std::move(outputs_);
  if (has_written_) hand_back_written(state);
  if (!has_written_ && queued_ && takes_buffers()) state->mark_lost();
  if (state != nullptr && !options_.may_be_left) state->take_replaced();
  return status_;
}

}  // namespace kpt
