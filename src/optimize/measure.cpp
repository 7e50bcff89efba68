#include "optimize/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/timing.h"
#include "device/copies.h"

namespace kpt {
namespace {

using Clock = std::chrono::steady_clock;

// One form with inputs of its types and outputs whose memory is used again.
struct Bench {
  ModelRun* run = nullptr;
  std::unique_ptr<State> state;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  bool resident = false;

  Result<double> once() {
    if (state != nullptr) KPT_RETURN_IF_ERROR(state->reset());
    RunContext context;
    context.state = state.get();
    context.outputs_on_device = resident;
    const auto start = Clock::now();
    KPT_RETURN_IF_ERROR(run->loaded().executable().run(context, inputs, outputs));
    return milliseconds_since(start);
  }
};

Result<Bench> make_bench(ModelRun& run, const std::vector<NamedTensor>& inputs, Device* resident) {
  Bench bench;
  bench.run = &run;
  bench.resident = resident != nullptr;
  if (run.is_stateful()) {
    KPT_ASSIGN_OR_RETURN(bench.state, run.loaded().executable().make_state());
  }
  KPT_ASSIGN_OR_RETURN(bench.inputs, run.loaded().order_inputs(inputs));
  for (std::size_t index = 0; index < bench.inputs.size(); ++index) {
    KPT_ASSIGN_OR_RETURN(bench.inputs[index],
                         convert_floating(bench.inputs[index], run.loaded().inputs()[index].dtype));
  }
  if (resident != nullptr) {
    KPT_ASSIGN_OR_RETURN(bench.inputs, upload_all(*resident, bench.inputs));
  }
  return bench;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

Result<PairedTimes> measure_pair(ModelRun& first, ModelRun& second, const std::vector<NamedTensor>& inputs,
                                 double seconds, Device* resident) {
  constexpr std::size_t kLeast = 5;
  constexpr std::size_t kMost = 400;
  KPT_ASSIGN_OR_RETURN(Bench a, make_bench(first, inputs, resident));
  KPT_ASSIGN_OR_RETURN(Bench b, make_bench(second, inputs, resident));
  for (int round = 0; round < 2; ++round) {
    KPT_ASSIGN_OR_RETURN([[maybe_unused]] const double warm_a, a.once());
    KPT_ASSIGN_OR_RETURN([[maybe_unused]] const double warm_b, b.once());
  }
  std::vector<double> times_a;
  std::vector<double> times_b;
  std::vector<double> ratios;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (ratios.size() < kMost && (ratios.size() < kLeast || Clock::now() < end)) {
    const bool turn = ratios.size() % 2 == 1;  // who goes first alternates
    KPT_ASSIGN_OR_RETURN(const double one, (turn ? b : a).once());
    KPT_ASSIGN_OR_RETURN(const double other, (turn ? a : b).once());
    times_a.push_back(turn ? other : one);
    times_b.push_back(turn ? one : other);
    ratios.push_back(times_a.back() / std::max(times_b.back(), 1e-9));
  }
  PairedTimes result;
  result.pairs = ratios.size();
  result.first_ms = median(times_a);
  result.second_ms = median(times_b);
  std::ranges::sort(ratios);
  result.ratio = ratios[ratios.size() / 2];
  // Ranks of a 95 % interval of the median (normal approximation of the binomial).
  const double half = 0.98 * std::sqrt(static_cast<double>(ratios.size()));
  const double middle = static_cast<double>(ratios.size() - 1) / 2;
  result.low = ratios[static_cast<std::size_t>(std::max(0.0, std::floor(middle - half)))];
  result.high =
      ratios[static_cast<std::size_t>(std::min(static_cast<double>(ratios.size() - 1), std::ceil(middle + half)))];
  return result;
}

Device* find_resident(const PlacedDevice& placed) {
  const Capabilities& capabilities = placed.device->target().capabilities();
  return capabilities.host_processor || capabilities.whole_graph_only ? nullptr : placed.device;
}

}  // namespace kpt
