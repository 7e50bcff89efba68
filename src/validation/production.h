// Whether a model is fit for service: it loads, answers, repeats itself, survives being written and read, and meets the
// figures that its users state. What nobody states is measured and told, and fails nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "device/backend_context.h"
#include "validation/draws.h"

namespace kpt {

struct Requirements {
  std::optional<double> max_latency_ms;  // of the 95th percentile, on the first draw
  std::optional<double> min_throughput;  // rows per second at the greatest batch asked for
  // Greatest memory of this process on the device while the model runs; on the CPU what is resident.
  std::optional<double> max_memory_mb;
  std::vector<std::int64_t> batch_sizes = {};
};

struct ProductionCheck {
  // "load", "forward", "determinism", "round_trip", "latency", "throughput", "memory", "batch_8"; on an accelerator
  // also "host_memory"
  std::string name;
  std::string severity;  // "error": required and failed; "info": measured; "ok"
  std::string text;
  std::optional<double> value;
  std::string device = {};  // as the caller named it
  bool passed() const { return severity != "error"; }
};

struct ProductionReport {
  std::vector<ProductionCheck> checks;
  bool passed() const;
};

// All checks are made even when one fails, except that nothing runs when the model cannot be loaded. Generated draws
// that the model cannot run, or answers with NaN or infinity, are told of; one draw must do. Accuracy is the
// gate's: see validate.h. `stored_program`: as for ModelRun::load(). The file of the round trip lies in a fresh folder
// of the system's temporary folder and is removed again.
Result<ProductionReport> check_production(const ImportedModel& model, const DrawOptions& draws,
                                          const Requirements& requirements, const BackendContext& context,
                                          const std::string& device, const std::string& stored_program = {});

nlohmann::ordered_json to_json(const ProductionReport& report);

}  // namespace kpt
