#include "validation/model_run.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "passes/promote_to_fp64.h"

namespace kpt {
namespace {

std::uint16_t round_to_bfloat16(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

}  // namespace

Result<Tensor> convert_floating(const Tensor& tensor, DType dtype) {
  if (!is_floating(tensor.dtype()) || tensor.dtype() == dtype) return tensor.contiguous_copy();
  KPT_ASSIGN_OR_RETURN(const Tensor wide, promote_to_fp64(tensor));
  if (dtype == DType::kFloat64) return wide;
  KPT_ASSIGN_OR_RETURN(const Tensor source, wide.contiguous_copy());
  KPT_ASSIGN_OR_RETURN(Tensor result, Tensor::empty(dtype, tensor.dims()));
  const auto from = source.elements<double>();
  for (std::size_t index = 0; index < from.size(); ++index) {
    if (dtype == DType::kFloat32) {
      result.elements<float>()[index] = static_cast<float>(from[index]);
    } else if (dtype == DType::kBFloat16) {
      result.elements<std::uint16_t>()[index] = round_to_bfloat16(from[index]);
    } else {
      return Status(StatusCode::kUnsupported, fmt::format("tensors are not converted to {} here", to_string(dtype)));
    }
  }
  return result;
}

Result<ModelRun> ModelRun::load(ImportedModel model, const PlacedDevice& device, std::string_view stored_program) {
  KPT_ASSIGN_OR_RETURN(auto loaded, detail::LoadedModel::load(std::move(model), *device.backend, *device.device,
                                                              device.backend, detail::BatchPolicy{}, stored_program));
  return take(std::move(loaded));
}

Result<ModelRun> ModelRun::take(std::shared_ptr<const detail::LoadedModel> loaded) {
  ModelRun run(std::move(loaded));
  if (run.is_stateful()) {
    KPT_ASSIGN_OR_RETURN(run.state_, run.loaded_->executable().make_state());
  }
  return run;
}

Status ModelRun::reset() { return state_ != nullptr ? state_->reset() : Status(); }

Result<std::vector<NamedTensor>> ModelRun::run(std::span<const NamedTensor> inputs) {
  KPT_ASSIGN_OR_RETURN(std::vector<Tensor> ordered, loaded_->order_inputs(inputs));
  for (std::size_t index = 0; index < ordered.size(); ++index) {
    if (!ordered[index].defined()) continue;  // the check below says which one is missing
    const Tensor given = ordered[index];
    KPT_ASSIGN_OR_RETURN(ordered[index], convert_floating(given, loaded_->inputs()[index].dtype));
    // A model may write its inputs; the runs it is compared with must see them as they were.
    if (ordered[index].buffer() == given.buffer()) {
      KPT_ASSIGN_OR_RETURN(ordered[index], given.contiguous_copy());
    }
  }
  KPT_RETURN_IF_ERROR(loaded_->input_check().check(ordered));
  RunContext context;
  context.state = state_.get();
  context.as_written = as_written_;
  std::vector<Tensor> outputs;
  KPT_RETURN_IF_ERROR(loaded_->executable().run(context, ordered, outputs));
  std::vector<NamedTensor> seen;
  for (std::size_t index = 0; index < outputs.size(); ++index) {
    seen.push_back({loaded_->outputs()[index].name, std::move(outputs[index])});
  }
  for (const ir::GraphOutput& output : loaded_->graph().outputs) {
    if (output.kind != ir::OutputKind::kInputMutation) continue;
    const std::vector<std::string>& names = loaded_->input_check().names();
    const auto found = std::ranges::find(names, output.name);
    if (found == names.end()) continue;
    seen.push_back({"input " + output.name, ordered[static_cast<std::size_t>(found - names.begin())]});
  }
  if (state_ != nullptr) {
    for (const std::string& name : state_->names()) {
      KPT_ASSIGN_OR_RETURN(const Tensor value, state_->read(name));
      KPT_ASSIGN_OR_RETURN(Tensor copy, value.contiguous_copy());
      seen.push_back({"buffer " + name, std::move(copy)});
    }
  }
  return seen;
}

}  // namespace kpt
