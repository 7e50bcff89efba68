// Measures a loaded model at one or several sets of sizes.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "benchmark/report.h"
#include "device/backend_context.h"
#include "device/execution.h"
#include "kpt/status.h"
#include "runtime/loaded_model.h"

namespace kpt {

struct ModelBenchmarkOptions {
  MeasureOptions measure;                // for each point
  std::vector<NamedTensor> inputs = {};  // given ones; the others are generated
  std::uint64_t seed = 0;
  std::string batch_symbol = {};             // for labels
  std::uint64_t anonymous_bytes_before = 0;  // RssAnon before the model was loaded
  Device* device = nullptr;                  // that the model is loaded on, for its own memory; null: not asked
  // Hears of a point before it is measured, for progress.
  std::function<void(std::size_t index, std::size_t count, const std::string& label)> on_point = {};
};

// A point that fails ends the benchmark; the message names its sizes. `notes` gets one sentence for each figure that
// this system does not give.
Result<std::vector<PointReport>> benchmark_points(const std::shared_ptr<const detail::LoadedModel>& model,
                                                  std::span<const Sizes> points, const ModelBenchmarkOptions& options,
                                                  const SystemFiles& files, std::vector<std::string>& notes);

// Versions, machine and model, which was loaded on `device` and may run on others beside it. Reads the whole model file
// for its hash.
Result<BenchmarkContext> describe_benchmark(const std::filesystem::path& model, const detail::LoadedModel& loaded,
                                            const Device& device, const BackendContext& backend_context);

}  // namespace kpt
