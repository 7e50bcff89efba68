#include "engines/native/native_state.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "engines/native/kept_memory.h"

namespace kpt::native {
namespace {

constexpr std::chrono::minutes kCopyLimit{10};

}  // namespace

Result<std::unique_ptr<NativeState>> NativeState::make(const void* owner, std::shared_ptr<Machine> machine,
                                                       std::shared_ptr<kpt::Buffer> weights,
                                                       std::vector<Buffer> buffers) {
  std::unique_ptr<NativeState> state(new NativeState(owner, std::move(machine), std::move(weights)));
  for (Buffer& buffer : buffers) {
    Entry entry;
    KPT_ASSIGN_OR_RETURN(entry.current, state->allocate(buffer));
    entry.buffer = std::move(buffer);
    state->entries_.push_back(std::move(entry));
  }
  KPT_RETURN_IF_ERROR(state->reset());
  return state;
}

Result<Tensor> NativeState::allocate(const Buffer& buffer) const {
  const auto count = static_cast<std::size_t>(count_elements(buffer.dims).value_or(0));
  KPT_ASSIGN_OR_RETURN(auto memory, machine_->allocate(std::max<std::size_t>(count * element_bytes(buffer.dtype), 1)));
  return Tensor::unchecked(std::move(memory), buffer.dtype, buffer.dims, contiguous_strides(buffer.dims), 0);
}

Status NativeState::reset() {
  KPT_RETURN_IF_ERROR(prepare_next());
  KPT_ASSIGN_OR_RETURN(auto stream, machine_->make_stream());
  Status status;
  std::vector<std::shared_ptr<void>> used = {weights_};
  for (const Entry& entry : entries_) {
    used.push_back(entry.next.buffer());
    if (status.ok() && entry.next.bytes() > 0) {
      status = stream->copy_on_device(entry.next.data(), entry.buffer.original, entry.next.bytes());
    }
  }
  const Status ended = finish(std::move(stream), kCopyLimit, std::move(used));
  if (!ended.ok()) drop_next();
  KPT_RETURN_IF_ERROR(status);
  KPT_RETURN_IF_ERROR(ended);
  advance();
  return {};
}

std::vector<std::string> NativeState::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.buffer.name);
  return names;
}

Result<std::size_t> NativeState::find(std::string_view name) const {
  const auto found = std::ranges::find_if(entries_, [name](const Entry& entry) { return entry.buffer.name == name; });
  if (found != entries_.end()) return static_cast<std::size_t>(found - entries_.begin());
  return Status(StatusCode::kNotFound, fmt::format("the model writes no buffer '{}'", name));
}

Result<Tensor> NativeState::read(std::string_view name) const {
  KPT_ASSIGN_OR_RETURN(const std::size_t place, find(name));
  const Entry& entry = entries_[place];
  KPT_ASSIGN_OR_RETURN(Tensor host, Tensor::empty(entry.buffer.dtype, entry.buffer.dims));
  KPT_ASSIGN_OR_RETURN(auto stream, machine_->make_stream());
  const Status queued = stream->copy_to_host(host.data(), entry.current.data(), host.bytes());
  const Status ended = finish(std::move(stream), kCopyLimit, {host.buffer(), entry.current.buffer()});
  KPT_RETURN_IF_ERROR(queued);
  KPT_RETURN_IF_ERROR(ended);
  return host;
}

Status NativeState::write(std::string_view name, const Tensor& value) {
  KPT_ASSIGN_OR_RETURN(const std::size_t place, find(name));
  Entry& entry = entries_[place];
  if (!value.defined() || value.dtype() != entry.buffer.dtype || !(value.dims() == entry.buffer.dims)) {
    return {StatusCode::kInvalidArgument, fmt::format("the value for buffer '{}' has another type or shape: {}", name,
                                                      value.defined() ? value.to_string() : "nothing")};
  }
  if (value.device() != "cpu") {
    return {StatusCode::kInvalidArgument,
            fmt::format("the value for buffer '{}' must be on the host: {}", name, value.to_string())};
  }
  Tensor dense = value;
  if (!dense.is_contiguous()) {
    KPT_ASSIGN_OR_RETURN(dense, value.contiguous_copy());
  }
  KPT_RETURN_IF_ERROR(prepare_next());
  KPT_ASSIGN_OR_RETURN(auto stream, machine_->make_stream());
  const Status queued = stream->copy_to_device(entry.next.data(), dense.data(), dense.bytes());
  const Status ended = finish(std::move(stream), kCopyLimit, {dense.buffer(), entry.next.buffer()});
  if (!ended.ok()) entry.next = Tensor();
  KPT_RETURN_IF_ERROR(queued);
  KPT_RETURN_IF_ERROR(ended);
  std::swap(entry.current, entry.next);
  return {};
}

const NativeState::Entry& NativeState::at(std::uint32_t input) const {
  return *std::ranges::find_if(entries_, [input](const Entry& entry) { return entry.buffer.input == input; });
}

const Tensor& NativeState::current(std::uint32_t input) const { return at(input).current; }
const Tensor& NativeState::next(std::uint32_t input) const { return at(input).next; }

void NativeState::advance() {
  for (Entry& entry : entries_) std::swap(entry.current, entry.next);
}

Status NativeState::prepare_next() {
  for (Entry& entry : entries_) {
    if (entry.next.defined()) continue;
    KPT_ASSIGN_OR_RETURN(entry.next, allocate(entry.buffer));
  }
  return {};
}

void NativeState::drop_next() {
  for (Entry& entry : entries_) entry.next = Tensor();
}

}  // namespace kpt::native
