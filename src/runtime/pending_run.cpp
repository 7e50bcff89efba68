#include "runtime/pending_run.h"

#include <exception>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "device/run_limits.h"
#include "runtime/loaded_model.h"

namespace kpt::detail {
namespace {

// Nobody stands above a run on a thread of its own who could catch what it throws.
template <typename Work>
Status guarded(const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return {StatusCode::kOutOfMemory, "the host has too little memory for a run"};
  } catch (const std::exception& error) {
    return {StatusCode::kInternal, fmt::format("a run ended with an exception: {}", error.what())};
  } catch (...) {
    return {StatusCode::kInternal, "a run ended with an exception"};
  }
}

Status in_use() {
  return {StatusCode::kInvalidArgument,
          "the session's buffers are in use by a run that is not over: wait for it, or start a session for each "
          "sequence"};
}

}  // namespace

PendingRun::PendingRun(const LoadedModel& model, State* state, std::span<const Tensor> inputs,
                       const RunOptions& options)
    : model_(model), report_(options.report), inputs_(inputs.begin(), inputs.end()) {
  context_.state = state;
  context_.deadline = options.deadline;
  context_.cancelled = options.cancelled;
  context_.outputs_on_device = options.outputs_on_device;
}

void PendingRun::execute() {
  Event event;
  const bool queues = model_.queues_runs();
  Status status = guarded([&] {
    KPT_RETURN_IF_ERROR(check_limits(context_));  // it may have stood in the queue for long
    return model_.run(context_, inputs_, outputs_, report_, queues ? &event : nullptr);
  });
  if (!status.ok() || !queues) return finish(std::move(status));
  const std::lock_guard lock(mutex_);
  event_ = std::move(event);
  phase_ = Phase::kQueued;
  changed_.notify_all();
}

void PendingRun::give_up(Status reason) { finish(std::move(reason)); }

void PendingRun::finish(Status status) {
  inputs_.clear();  // outside the lock: their last share may call the user
  if (!status.ok()) outputs_.clear();
  const std::lock_guard lock(mutex_);
  status_ = std::move(status);
  phase_ = Phase::kOver;
  changed_.notify_all();
}

bool PendingRun::done() const {
  const std::lock_guard lock(mutex_);
  return phase_ == Phase::kOver || (phase_ != Phase::kBegun && event_.done());
}

Status PendingRun::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return phase_ == Phase::kQueued || phase_ == Phase::kOver; });
  if (phase_ == Phase::kQueued) {
    phase_ = Phase::kWaiting;
    lock.unlock();
    finish(guarded([this] { return event_.wait(); }));
    lock.lock();
  }
  return status_;
}

Result<std::vector<Tensor>> PendingRun::take_outputs() {
  KPT_RETURN_IF_ERROR(wait());
  const std::lock_guard lock(mutex_);
  if (std::exchange(taken_, true)) {
    return Status(StatusCode::kInvalidArgument, "the outputs of this run were taken before");
  }
  return std::move(outputs_);
}

Result<std::shared_ptr<PendingRun>> start_run(SessionState& session, std::span<const Tensor> inputs,
                                              const RunOptions& options) {
  const LoadedModel& model = *session.model;
  KPT_RETURN_IF_ERROR(model.input_check().check(inputs));
  KPT_RETURN_IF_ERROR(model.prepare_queue());
  const auto run = std::make_shared<PendingRun>(model, session.buffers.get(), inputs, options);
  if (session.buffers != nullptr) {
    const std::unique_lock lock(session.mutex, std::try_to_lock);
    if (!lock.owns_lock() || (session.in_flight != nullptr && !session.in_flight->done())) return in_use();
    finish_flight(session);
    session.in_flight = run;
  }
  const Status queued = guarded([&] {
    model.queue(run);
    return Status();
  });
  if (!queued.ok()) run->give_up(queued);
  return run;
}

}  // namespace kpt::detail
