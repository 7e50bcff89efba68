#include "engines/xla/execution/xla_state.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/own_memory.h"
#include "engines/xla/pjrt/plugin_calls.h"

namespace kpt {
namespace {

Status unknown(std::string_view name) {
  return {StatusCode::kNotFound, fmt::format("the model writes no buffer '{}'", name)};
}

}  // namespace

XlaState::XlaState(const void* owner, std::shared_ptr<const pjrt::Client> client, DeviceRange devices,
                   const std::map<std::string, DeviceParts, std::less<>>& originals,
                   std::shared_ptr<CallThreads> threads, std::chrono::milliseconds limit)
    : owner_(owner), client_(std::move(client)), devices_(devices), threads_(std::move(threads)), limit_(limit) {
  for (const auto& [name, parts] : originals) entries_.emplace(name, Entry{parts, parts});
}

XlaState::~XlaState() {
  struct Held {
    std::shared_ptr<const pjrt::Client> client;
    std::vector<DeviceParts> replaced;
    std::map<std::string, Entry, std::less<>> entries;
  };
  const std::string plugin = client_->plugin().name();
  threads_->let_go(Held{std::move(client_), std::move(replaced_), std::move(entries_)}, limit_, plugin);
}

void XlaState::let_go(std::vector<DeviceParts> parts) const {
  threads_->let_go(std::move(parts), limit_, client_->plugin().name());
}

Status XlaState::reset() {
  std::vector<DeviceParts> old = take_replaced();
  for (auto& [name, entry] : entries_) old.push_back(std::exchange(entry.current, entry.original));
  let_go(std::move(old));
  lost_ = false;
  return {};
}

std::vector<std::string> XlaState::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

Status XlaState::check_usable() const {
  if (!lost_) return {};
  return {StatusCode::kInvalidArgument, "the buffers were lost when an earlier run failed; reset the session"};
}

Result<Tensor> XlaState::read(std::string_view name) const {
  KPT_RETURN_IF_ERROR(check_usable());
  const auto found = entries_.find(name);
  if (found == entries_.end()) return unknown(name);
  const pjrt::Plugin& plugin = client_->plugin();
  return pjrt::call_within<Tensor>(*threads_, limit_, plugin.name(), "give back a buffer", plugin.vendor(),
                                   [buffer = found->second.current.front()] { return buffer->download(); });
}

Status XlaState::write(std::string_view name, const Tensor& value) {
  KPT_RETURN_IF_ERROR(check_usable());
  const auto found = entries_.find(name);
  if (found == entries_.end()) return unknown(name);
  const pjrt::DeviceBuffer& current = *found->second.current.front();
  if (!value.defined() || value.dtype() != current.dtype() || !(value.dims() == current.dims())) {
    return {StatusCode::kInvalidArgument, fmt::format("the value for buffer '{}' has another type or shape: {}", name,
                                                      value.defined() ? value.to_string() : "nothing")};
  }
  const pjrt::Plugin& plugin = client_->plugin();
  KPT_ASSIGN_OR_RETURN(const Tensor kept, own_memory(value));
  KPT_ASSIGN_OR_RETURN(DeviceParts content,
                       pjrt::call_within<DeviceParts>(*threads_, limit_, plugin.name(), "take a buffer",
                                                      plugin.vendor(), [client = client_, kept, devices = devices_] {
                                                        return upload_parts(*client, kept, pjrt::HostMemory::kCopied,
                                                                            std::nullopt, devices);
                                                      }));
  std::vector<DeviceParts> old;  // a list in braces would keep a share here, and the last one
  old.push_back(std::exchange(found->second.current, std::move(content)));
  let_go(std::move(old));
  return {};
}

const DeviceParts& XlaState::current(const std::string& name) const { return entries_.at(name).current; }

bool XlaState::is_own(const std::string& name) const {
  const Entry& entry = entries_.at(name);
  return entry.current != entry.original &&
         std::ranges::all_of(entry.current, [](const auto& part) { return part.use_count() == 1; });
}

void XlaState::replace(const std::string& name, DeviceParts content) {
  replaced_.push_back(std::exchange(entries_.at(name).current, std::move(content)));
}

}  // namespace kpt
