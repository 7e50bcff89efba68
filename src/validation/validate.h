// One model on several devices, and its optimized form beside it: against fp64, against each other, and against itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "device/backend_context.h"
#include "validation/determinism.h"
#include "validation/gate.h"
#include "validation/layers.h"

namespace kpt {

// One form of the model on one device.
struct Contender {
  std::string label;   // "cpu", "model.kpt on cpu"
  std::string device;  // "cpu"
  ImportedModel model;
  Level level = Level::kConservative;  // whose rule it must meet
  std::string program = {};            // stored beside the model, to be run instead of compiling
  bool last_position = false;          // it may give outputs for their last position only (GateOptions)
};

struct ValidateOptions {
  DrawOptions draws;
  std::optional<double> tolerance;
  bool layers = false;
};

struct ContenderResult {
  std::string label;
  std::string device;  // where it really ran
  GateReport gate;
  Determinism determinism;
  std::vector<LayerError> layers;  // of the first draw; only when asked for
  std::optional<std::size_t> first_divergence;
};

// Two contenders on one output, over all draws.
struct PairDifference {
  std::string first;
  std::string second;
  std::string output;
  Agreement agreement;
};

// Two contenders on the values inside, on the first draw.
struct PairLayers {
  std::string first;
  std::string second;
  std::vector<LayerDifference> layers;
};

struct ValidateReport {
  std::vector<ContenderResult> contenders;
  std::vector<PairDifference> pairs;
  std::vector<PairLayers> pair_layers;  // only when asked for
  bool passed() const;                  // every gate passed and every contender answers the same question alike
};

// `model` is what all are held against: its plain run on the CPU and its fp64 form. Fails when a device is not there, a
// contender cannot run, or the model has no fp64 form.
Result<ValidateReport> validate_model(const ImportedModel& model, const std::vector<Contender>& contenders,
                                      const ValidateOptions& options, const BackendContext& context);

nlohmann::ordered_json to_json(const Determinism& determinism);
nlohmann::ordered_json to_json(const Agreement& agreement);
nlohmann::ordered_json to_json(const ValidateReport& report);

}  // namespace kpt
