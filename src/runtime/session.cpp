#include "kpt/model.h"

#include <utility>

#include "runtime/loaded_model.h"

namespace kpt {
namespace {

std::vector<NamedTensor> name_outputs(const detail::LoadedModel& model, std::vector<Tensor> outputs) {
  std::vector<NamedTensor> named;
  named.reserve(outputs.size());
  for (std::size_t index = 0; index < outputs.size(); ++index) {
    named.push_back({model.outputs()[index].name, std::move(outputs[index])});
  }
  return named;
}

}  // namespace

Pending::Pending(std::shared_ptr<detail::SessionState> session, std::shared_ptr<detail::PendingRun> run)
    : session_(std::move(session)), run_(std::move(run)) {}

Pending& Pending::operator=(Pending&& other) noexcept {
  if (this == &other) return *this;
  end();
  session_ = std::move(other.session_);
  run_ = std::move(other.run_);
  return *this;
}

Pending::~Pending() { end(); }

void Pending::end() noexcept {
  if (run_ == nullptr) return;
  static_cast<void>(run_->take_outputs());  // the session may know the run for longer, but nobody wants them any more
  run_.reset();
  session_.reset();
}

bool Pending::done() const { return run_ == nullptr || run_->done(); }

Status Pending::wait() const { return run_ == nullptr ? Status() : run_->wait(); }

Result<std::vector<NamedTensor>> Pending::take_outputs() {
  if (run_ == nullptr) return Status(StatusCode::kInvalidArgument, "no run was started, so there are no outputs");
  KPT_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, run_->take_outputs());
  return name_outputs(*session_->model, std::move(outputs));
}

Status Session::run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs, const RunOptions& options) {
  return detail::run_session(*state_, inputs, outputs, options);
}

Result<std::vector<NamedTensor>> Session::run(std::span<const NamedTensor> inputs, const RunOptions& options) {
  KPT_ASSIGN_OR_RETURN(const std::vector<Tensor> ordered, state_->model->order_inputs(inputs));
  std::vector<Tensor> outputs;
  KPT_RETURN_IF_ERROR(run(ordered, outputs, options));
  return name_outputs(*state_->model, std::move(outputs));
}

Result<std::vector<NamedTensor>> Session::run(std::initializer_list<NamedTensor> inputs, const RunOptions& options) {
  return run(std::span<const NamedTensor>(inputs.begin(), inputs.size()), options);
}

Result<Pending> Session::run_async(std::span<const Tensor> inputs, const RunOptions& options) {
  KPT_ASSIGN_OR_RETURN(auto run, detail::start_run(*state_, inputs, options));
  return Pending(state_, std::move(run));
}

Result<Pending> Session::run_async(std::span<const NamedTensor> inputs, const RunOptions& options) {
  KPT_ASSIGN_OR_RETURN(const std::vector<Tensor> ordered, state_->model->order_inputs(inputs));
  return run_async(ordered, options);
}

Result<Pending> Session::run_async(std::initializer_list<NamedTensor> inputs, const RunOptions& options) {
  return run_async(std::span<const NamedTensor>(inputs.begin(), inputs.size()), options);
}

Status Session::reset() {
  if (state_->buffers == nullptr) return {};
  const std::lock_guard lock(state_->mutex);
  detail::finish_flight(*state_);
  return state_->buffers->reset();
}

}  // namespace kpt
