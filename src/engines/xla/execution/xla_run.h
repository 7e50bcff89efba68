// One run of a program on a plugin. It owns a share of all that the plugin may touch, so that it can go on by itself
// when nobody waits for it any more.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engines/xla/execution/device_parts.h"
#include "engines/xla/execution/shape_programs.h"
#include "engines/xla/execution/xla_program.h"
#include "engines/xla/execution/xla_state.h"
#include "engines/xla/execution/xla_tensor.h"
#include "engines/xla/pjrt/client.h"
#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

// What all runs of a loaded model share.
struct XlaModel {
  std::shared_ptr<const XlaProgram> program;
  std::shared_ptr<const pjrt::Client> client;
  std::string device;  // its name
  DeviceRange devices;
  std::vector<std::optional<std::size_t>> user_position;  // by graph input: which of a run's inputs
  std::vector<DeviceParts> weights;                       // by graph input; empty for others
  std::vector<bool> is_written;                           // by graph input, weights only
};

struct XlaRunOptions {
  // The caller may leave before the run is over, so that inputs whose memory would not wait for it are copied here, and
  // memory of the others is not read once they are uploaded.
  bool may_be_left = false;
  std::optional<XlaRelease> on_device;  // outputs stay on the first device, and are let go in this way
};

class XlaRun {
 public:
  // Memory of `outputs` is used again where it can be. `state`: null for a model that writes no buffers. Fails with
  // kInvalidArgument for a tensor in the plugin's memory that is a view, of another client or on another device, and
  // with kOutOfMemory.
  static Result<std::shared_ptr<XlaRun>> make(std::shared_ptr<const XlaModel> model, ShapePrograms::Program program,
                                              std::span<const Tensor> inputs, XlaState* state,
                                              std::vector<Tensor> outputs, XlaRunOptions options);

  // Uploads the inputs, runs the program and brings to the host what belongs there (outputs that stay on one of several
  // devices come by way of it). Once, on any thread.
  void execute();
  // From any thread: a program that is not queued yet need not be.
  void give_up() { unwanted_ = true; }
  // Whether the program may overwrite buffers of the state.
  bool takes_buffers() const { return !given_away_.empty(); }

  // After execute(), on the caller's thread: its status; outputs, and what the model wrote, go where they belong, all
  // of it or nothing. A run that took buffers of the state and gives none back leaves it lost.
  Status finish(XlaState* state, std::vector<Tensor>& outputs);

 private:
  // By device and by position of the module's argument.
  struct Arguments {
    std::vector<std::vector<const pjrt::DeviceBuffer*>> buffers;
    std::vector<std::shared_ptr<pjrt::DeviceBuffer>> uploaded;
  };
  // An input, looked at when the run is made: another run may give the tensor other contents while this one, left by
  // its caller, still runs.
  struct Given {
    Tensor tensor;                                // the caller's, where what the model writes goes
    Tensor source;                                // on the host: what is uploaded, maybe a copy
    XlaTensorBuffer* ours = nullptr;              // that `tensor` keeps; null for one on the host
    std::shared_ptr<pjrt::DeviceBuffer> content;  // of `ours`, until the run is done
  };
  // What the model made of a buffer or an input.
  struct Written {
    DeviceParts parts;  // of a buffer on all devices; of an input in the plugin's memory on the first
    Tensor host;        // of an input on the host
  };

  XlaRun(std::shared_ptr<const XlaModel> model, ShapePrograms::Program program, std::vector<Tensor> outputs,
         XlaRunOptions options)
      : model_(std::move(model)),
        program_(std::move(program)),
        options_(std::move(options)),
        outputs_(std::move(outputs)) {}
  const ir::Graph& graph() const { return model_->program->graph(); }
  Status take_inputs(std::span<const Tensor> inputs);
  void take_buffers(XlaState& state);
  Status run_program();
  Result<DeviceParts> give_input(const Given& given, Cut cut) const;
  Result<Arguments> gather() const;
  Status fetch_written(const pjrt::Execution& execution);
  // Copies of all outputs to the host, where they do not stay on a single device. They must be waited for whatever this
  // gives.
  Status start_outputs(const pjrt::Execution& execution, std::vector<pjrt::Completion>& pending);
  Status upload_outputs();
  void hand_back_written(XlaState* state);

  std::shared_ptr<const XlaModel> model_;
  ShapePrograms::Program program_;
  std::vector<Given> given_;  // by position; empty where the program neither reads nor writes it
  XlaRunOptions options_;
  std::map<std::uint32_t, DeviceParts> state_;  // by graph input
  std::vector<std::size_t> given_away_;         // arguments of the state that the run may overwrite
  std::vector<DeviceParts> replaced_;           // what the run before took out of the state
  std::vector<Tensor> outputs_;
  std::vector<Written> written_;  // as the module's results behind the outputs
  std::atomic<bool> unwanted_{false};
  bool queued_ = false;
  bool has_written_ = false;  // all of written_ is there and fits
  Status status_;
};

}  // namespace kpt
