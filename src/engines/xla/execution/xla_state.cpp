#include "engines/xla/execution/xla_state.h"

#include <algorithm>

#include <fmt/format.h>

namespace kpt {
namespace {

Status unknown(std::string_view name) {
  return {StatusCode::kNotFound, fmt::format("the model writes no buffer '{}'", name)};
}

}  // namespace

XlaState::XlaState(const void* owner, std::shared_ptr<const pjrt::Client> client, DeviceRange devices,
                   const std::map<std::string, DeviceParts, std::less<>>& originals)
    : owner_(owner), client_(std::move(client)), devices_(devices) {
  for (const auto& [name, parts] : originals) entries_.emplace(name, Entry{parts, parts});
}

Status XlaState::reset() {
  for (auto& [name, entry] : entries_) entry.current = entry.original;
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
  return found->second.current.front()->download();
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
  KPT_ASSIGN_OR_RETURN(found->second.current,
                       upload_parts(*client_, value, pjrt::HostMemory::kCopied, std::nullopt, devices_));
  return {};
}

const DeviceParts& XlaState::current(const std::string& name) const { return entries_.at(name).current; }

bool XlaState::is_own(const std::string& name) const {
  const Entry& entry = entries_.at(name);
  return entry.current != entry.original &&
         std::ranges::all_of(entry.current, [](const auto& part) { return part.use_count() == 1; });
}

void XlaState::replace(const std::string& name, DeviceParts content) { entries_.at(name).current = std::move(content); }

}  // namespace kpt
