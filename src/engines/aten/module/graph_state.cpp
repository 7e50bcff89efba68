#include "engines/aten/module/graph_state.h"

#include <ATen/Functions.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include "engines/aten/module/guarded_call.h"
#include "engines/aten/module/tensors.h"

namespace kpt::aten {
namespace {

// `body` may throw what libtorch throws.
template <typename Body>
Status guarded_status(const Body& body) {
  const CallOutcome outcome = guarded_call(body);
  if (outcome.code == CallCode::kOk) return {};
  const bool ran_out = outcome.code == CallCode::kOutOfMemory || outcome.code == CallCode::kOutOfHostMemory;
  return {ran_out ? StatusCode::kOutOfMemory : StatusCode::kVendorLibrary, outcome.text};
}

Status unknown(std::string_view name) {
  return {StatusCode::kNotFound, fmt::format("the model writes no buffer '{}'", name)};
}

}  // namespace

GraphState::GraphState(const std::vector<LoadedWeight>& weights, at::Device device) {
  const c10::InferenceMode inference;
  DeviceCopies copies(device);
  for (const LoadedWeight& weight : weights) {
    if (!weight.written) continue;
    entries_.emplace(weight.name, Entry{weight.tensor, copies.view(weight.source), weight.source.buffer()});
  }
}

Status GraphState::reset() {
  return guarded_status([&] {
    const c10::InferenceMode inference;
    for (auto& [name, entry] : entries_) entry.current.copy_(entry.original);
    if (!entries_.empty()) wait_for_queue(entries_.begin()->second.current.device());
  });
}

std::vector<std::string> GraphState::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

Result<Tensor> GraphState::read(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return unknown(name);
  Tensor copy;
  KPT_RETURN_IF_ERROR(guarded_status([&] {
    const c10::InferenceMode inference;
    replace_tensor(found->second.current.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true), copy);
  }));
  return copy;
}

Status GraphState::write(std::string_view name, const Tensor& value) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return unknown(name);
  const at::Tensor& current = found->second.current;
  if (!value.defined() || to_scalar_type(value.dtype()) != current.scalar_type() ||
      current.sizes() != at::IntArrayRef(value.dims().data(), value.dims().size())) {
    return {StatusCode::kInvalidArgument,
            fmt::format("the value for buffer '{}' has another type or shape: {}", name, value.to_string())};
  }
  return guarded_status([&] {
    const c10::InferenceMode inference;
    current.copy_(to_aten(value));
    wait_for_queue(current.device());
  });
}

const at::Tensor& GraphState::tensor(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) throw CallFailure(CallCode::kInvalidArgument, "the state belongs to another model");
  return found->second.current;
}

}  // namespace kpt::aten
