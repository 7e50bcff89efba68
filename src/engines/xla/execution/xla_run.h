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

class XlaRun {
 public:
  // Memory of `outputs` is used again where it can be. `state`: null for a model that writes no buffers. `may_be_left`:
  // the caller may leave before the run is over, so that memory of its inputs is not read once they are uploaded.
  XlaRun(std::shared_ptr<const XlaModel> model, ShapePrograms::Program program, std::span<const Tensor> inputs,
         XlaState* state, std::vector<Tensor> outputs, bool may_be_left);

  // Uploads the inputs, runs the program and brings to the host what belongs there. Once, on any thread.
  void execute();
  // From any thread: a program that is not queued yet need not be.
  void give_up() { unwanted_ = true; }
  // Whether the program may overwrite buffers of the state.
  bool takes_buffers() const { return !given_away_.empty(); }

  // After execute(), on the caller's thread: its status; outputs, and what the model wrote, go where they belong. A
  // run that failed once it had taken buffers leaves the state lost.
  Status finish(XlaState* state, std::vector<Tensor>& outputs);

 private:
  // By device and by position of the module's argument.
  struct Arguments {
    std::vector<std::vector<const pjrt::DeviceBuffer*>> buffers;
    std::vector<std::shared_ptr<pjrt::DeviceBuffer>> uploaded;
  };
  // What the model made of a buffer or an input.
  struct Written {
    DeviceParts parts;
    Tensor host;  // of an input on the host
  };

  const ir::Graph& graph() const { return model_->program->graph(); }
  Status run_program();
  Result<DeviceParts> give_input(const Tensor& given, Cut cut) const;
  Result<Arguments> gather() const;
  Status fetch_written(const pjrt::Execution& execution);
  Status fetch_outputs(const pjrt::Execution& execution);
  Status hand_back_written(XlaState* state);

  std::shared_ptr<const XlaModel> model_;
  ShapePrograms::Program program_;
  std::vector<Tensor> inputs_;
  bool may_be_left_;
  std::map<std::uint32_t, DeviceParts> state_;  // by graph input
  std::vector<std::size_t> given_away_;         // arguments of the state that the run may overwrite
  std::vector<DeviceParts> replaced_;           // what the run before took out of the state
  std::vector<Tensor> outputs_;
  std::vector<Written> written_;  // as the module's results behind the outputs
  std::atomic<bool> unwanted_{false};
  bool queued_ = false;
  bool ran_ = false;
  Status status_;
};

}  // namespace kpt
