// Load a model, run it.
//
//   auto model = kpt::load_model("model.pt2").value();
//   auto session = model.start_session().value();
//   auto outputs = session.run({{"input_ids", ids}}).value();   // NamedTensor{name, tensor}
//
// A Model is loaded once and shared by all threads; copying it is cheap. A Session is one sequence of runs: for a model
// that writes buffers (a KV cache) it holds them, for others it holds nothing.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kpt/dtype.h"
#include "kpt/export.h"
#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

struct LoadOptions {
  // As kpt::list_devices() names it; auto: the first of nvidia:0, amd:0, tpu:0 and cpu that is here.
  std::string device = "cpu";
  // A safetensors file whose entries replace the model's weights, by name. Names that the model lacks are logged as a
  // warning; when it has none of them, loading fails with kInvalidArgument.
  std::filesystem::path weights;
  std::string model_name;  // of several in one file; empty: the only one
  bool self_check = true;  // a `.kpt`: its samples must give their stored outputs on this machine
};

// What a model takes or gives.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::string> dims;  // "128", or a symbol or expression for sizes that may change: "s0"
};

// How a run was done.
struct RunReport {
  std::int64_t parts = 1;      // more when a batch that did not fit into memory was split (option memory.split_batches)
  std::int64_t part_rows = 0;  // the most rows that a part had; 0 when nothing was split
  std::int64_t padded_rows = 0;       // that the device computed beside the batch's own (option memory.batch_buckets)
  std::int64_t padded_positions = 0;  // and behind the end of its sequences (option memory.sequence_buckets)
};

struct RunOptions {
  std::optional<std::chrono::steady_clock::time_point> deadline;  // kDeadlineExceeded when it passes
  const std::atomic<bool>* cancelled = nullptr;                   // kCancelled soon after it becomes true
  // Outputs stay in the memory of nvidia:N, amd:N, tpu:N or xla:NAME, as inputs of a next run, unless the model is
  // split; sequences are not padded then, nor on tpu:N and xla:NAME batches. Otherwise they come to the host.
  bool outputs_on_device = false;
  RunReport* report = nullptr;  // is told how the run was done
};

namespace detail {
class LoadedModel;
class PendingRun;
struct SessionState;
}  // namespace detail

// A run that Session::run_async() began. An empty one is done and has no outputs. It keeps the session's model, its
// buffers and the run's inputs; destroying it, or moving another one here, waits until the run is over. Thread safe,
// but for moving and destroying it.
class KPT_API Pending {
 public:
  Pending() = default;
  explicit Pending(std::shared_ptr<detail::SessionState> session, std::shared_ptr<detail::PendingRun> run);
  Pending(Pending&& other) noexcept = default;
  Pending& operator=(Pending&& other) noexcept;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  ~Pending();

  // Whether the run is over; wait() then has nothing to wait for, but may copy outputs.
  bool done() const;
  // Until the run is over: gives what Session::run() would have given. May be called again.
  Status wait() const;
  // Waits, then gives all outputs in the model's order, once. Fails as wait(), and with kInvalidArgument when they were
  // taken before.
  Result<std::vector<NamedTensor>> take_outputs();

 private:
  void end() noexcept;

  std::shared_ptr<detail::SessionState> session_;  // goes last
  std::shared_ptr<detail::PendingRun> run_;
};

// Thread safe: several threads may run one session at the same time. Runs of a model that writes buffers wait for each
// other, since each continues where the last one stopped.
class KPT_API Session {
 public:
  explicit Session(std::shared_ptr<detail::SessionState> state) : state_(std::move(state)) {}

  // By name, in any order. Gives all outputs in the model's order. Fails with kInvalidArgument, naming the input and
  // what was expected, before anything runs.
  Result<std::vector<NamedTensor>> run(std::span<const NamedTensor> inputs, const RunOptions& options = {});
  Result<std::vector<NamedTensor>> run(std::initializer_list<NamedTensor> inputs, const RunOptions& options = {});
  // By position. `outputs` is replaced; passing the same vector again lets steady runs use its memory again.
  Status run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs, const RunOptions& options = {});

  // Begins a run and returns; Pending waits for it. Runs of one model are done in the order in which they were begun.
  // On nvidia:N and, with PyTorch for ROCm, amd:N the device's queue takes them; elsewhere a thread of the model's runs
  // them. Until the run is over its inputs may not be written, and what the options point to must stay.
  // Fails with kInvalidArgument for inputs that do not fit, and, for a model that writes buffers, while another run of
  // this session is not over; what goes wrong later is told by Pending.
  Result<Pending> run_async(std::span<const NamedTensor> inputs, const RunOptions& options = {});
  Result<Pending> run_async(std::initializer_list<NamedTensor> inputs, const RunOptions& options = {});
  Result<Pending> run_async(std::span<const Tensor> inputs, const RunOptions& options = {});  // by position

  // Puts the buffers that the model writes back to what the file holds.
  Status reset();

 private:
  std::shared_ptr<detail::SessionState> state_;
};

class KPT_API Model {
 public:
  explicit Model(std::shared_ptr<const detail::LoadedModel> loaded) : loaded_(std::move(loaded)) {}

  const std::vector<TensorSpec>& inputs() const;
  const std::vector<TensorSpec>& outputs() const;
  std::string_view device() const;  // where it runs
  bool is_stateful() const;         // it writes buffers

  Result<Session> start_session() const;

 private:
  std::shared_ptr<const detail::LoadedModel> loaded_;
};

// Reads a `.pt2` file of torch.export (PyTorch 2.9 or newer) or a `.kpt` file of `kpt optimize`, told apart by their
// content, and prepares it for the device. The file stays mapped while the model lives: replace it by renaming another
// over it. Fails with kNotFound, kCorruptData, kVersionMismatch, kUnsupported (listing every operator that cannot run,
// with its place in the Python source; a `.kpt` for instructions that the device lacks), kModelPreparation (a `.kpt`
// for other devices), kDeviceNotAvailable, kValidation (a `.kpt` that fails its self-check).
KPT_API Result<Model> load_model(const std::filesystem::path& path, const LoadOptions& options = {});

}  // namespace kpt
