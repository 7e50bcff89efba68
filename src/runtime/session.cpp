#include "kpt/model.h"
#include "runtime/loaded_model.h"

namespace kpt {

Status Session::run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs, const RunOptions& options) {
  return detail::run_session(*state_, inputs, outputs, options);
}

Result<std::vector<NamedTensor>> Session::run(std::span<const NamedTensor> inputs, const RunOptions& options) {
  KPT_ASSIGN_OR_RETURN(const std::vector<Tensor> ordered, state_->model->order_inputs(inputs));
  std::vector<Tensor> outputs;
  KPT_RETURN_IF_ERROR(run(ordered, outputs, options));
  std::vector<NamedTensor> named;
  named.reserve(outputs.size());
  for (std::size_t index = 0; index < outputs.size(); ++index) {
    named.push_back({state_->model->outputs()[index].name, std::move(outputs[index])});
  }
  return named;
}

Result<std::vector<NamedTensor>> Session::run(std::initializer_list<NamedTensor> inputs, const RunOptions& options) {
  return run(std::span<const NamedTensor>(inputs.begin(), inputs.size()), options);
}

Status Session::reset() {
  if (state_->buffers == nullptr) return {};
  const std::lock_guard lock(state_->mutex);
  return state_->buffers->reset();
}

}  // namespace kpt
