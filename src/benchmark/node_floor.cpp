#include "benchmark/node_floor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <functional>
#include <future>
#include <memory>
#include <new>

#include "base/thread_pool.h"
#include "ir/figures.h"
#include "kernels/cpu/arithmetic_peak.h"

namespace kpt {
namespace {

constexpr int kTrials = 7;
constexpr double kTrialSeconds = 0.01;

// This thread's own time on a processor: what other processes take is not in it.
double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Runs `work(thread, rounds)` on all threads at once, and gives the rounds a second of all of them together.
double rate_on_all(ThreadPool& pool, std::int64_t rounds, const std::function<void(int, std::int64_t)>& work) {
  std::vector<std::future<double>> taken;
  for (int thread = 0; thread < pool.thread_count(); ++thread) {
    taken.push_back(pool.submit([&work, thread, rounds] {
      const double begin = thread_seconds();
      work(thread, rounds);
      return thread_seconds() - begin;
    }));
  }
  double rate = 0;
  for (std::future<double>& one : taken) rate += static_cast<double>(rounds) / std::max(one.get(), 1e-9);
  return rate;
}

// The best of several trials.
double best_rate(ThreadPool& pool, const std::function<void(int, std::int64_t)>& work) {
  const auto best_of = [&](std::int64_t rounds, int trials) {
    double best = 0;
    for (int trial = 0; trial < trials; ++trial) best = std::max(best, rate_on_all(pool, rounds, work));
    return best;
  };
  std::int64_t rounds = 1;
  const double threads = pool.thread_count();
  while (rounds < std::int64_t{1} << 40 && static_cast<double>(rounds) * threads < kTrialSeconds * best_of(rounds, 2)) {
    rounds *= 2;
  }
  return best_of(rounds, kTrials);
}

std::vector<CopySpeed> measure_copies(ThreadPool& pool) {
  constexpr std::array<std::size_t, 6> kSizes = {std::size_t{1} << 18, std::size_t{1} << 20, std::size_t{1} << 22,
                                                 std::size_t{1} << 24, std::size_t{1} << 26, std::size_t{1} << 28};
  std::vector<CopySpeed> speeds;
  const std::unique_ptr<char[]> memory(new (std::nothrow) char[kSizes.back()]);
  if (!memory) return speeds;
  std::memset(memory.get(), 1, kSizes.back());
  const auto threads = static_cast<std::size_t>(pool.thread_count());
  for (const std::size_t size : kSizes) {
    const std::size_t part = size / 2 / threads;  // that a thread reads; it writes as much
    if (part == 0) continue;
    const double rate = best_rate(pool, [&](int thread, std::int64_t rounds) {
      char* from = memory.get() + 2 * part * static_cast<std::size_t>(thread);
      for (; rounds > 0; --rounds) {
        std::memcpy(from + part, from, part);
        __asm__ volatile("" : : "r"(from) : "memory");  // no copy is left out
      }
    });
    speeds.push_back({size, rate * static_cast<double>(2 * part) / 1e9});
  }
  return speeds;
}

const ir::TensorType* find_tensor(const ir::Graph& graph, const ir::Node& node, std::string_view name) {
  for (const ir::NamedArgument& argument : node.arguments) {
    const ir::ValueId* id = argument.value.value_id();
    if (id == nullptr || (!name.empty() && argument.name != name)) continue;
    if (graph.at(*id).kind == ir::ValueKind::kTensor) return &graph.at(*id).tensor;
  }
  return nullptr;
}

// Rows of a product of ours; nothing where its sizes are not known.
std::optional<double> count_rows(const ir::TensorType& result, const ir::Bindings& sizes) {
  double rows = 1;
  for (std::size_t axis = 0; axis + 1 < result.dims.size(); ++axis) {
    const auto size = result.dims[axis].evaluate(sizes);
    if (!size.ok()) return std::nullopt;
    rows *= static_cast<double>(*size);
  }
  return rows;
}

// Of a product with weights alone in int8 or int4.
DType weight_only_type(const ir::Graph& graph, const ir::Node& node, const ir::Bindings& sizes,
                       const MachineFloor& machine) {
  const ir::TensorType* const input = find_tensor(graph, node, "input");
  const ir::TensorType& result = graph.at(node.outputs[0].values[0]).tensor;
  const auto rows = count_rows(result, sizes);
  if (input == nullptr || !rows || *rows <= static_cast<double>(machine.most_float32_rows)) return DType::kFloat32;
  return input->dtype == DType::kFloat32 ? result.dtype : input->dtype;
}

// The type in which a node's products are made. Our attention on the CPU multiplies in float32, our linear and
// convolution in the weight's type (ir/own_operators.h); libtorch's operators in that of their first tensor.
std::string product_type(const ir::Graph& graph, const ir::Node& node, const ir::Bindings& sizes,
                         const MachineFloor& machine) {
  if (node.target == "kpt.linear_int8.default" || node.target == "kpt.conv2d_int8.default") return "int8";
  if (node.target.starts_with("kpt.linear_fp8")) return std::string(to_string(DType::kFloat8E4M3FN));
  if (node.target == "kpt.linear_int4.default" || node.target == "kpt.linear_weight_int8.default") {
    return std::string(to_string(weight_only_type(graph, node, sizes, machine)));
  }
  if (node.target == "kpt.attention.default" && machine.own_attention_is_float32) return "float32";
  const bool ours = node.target == "kpt.linear.default" || node.target == "kpt.conv2d.default";
  const ir::TensorType* type = find_tensor(graph, node, ours ? "weight" : "");
  return type != nullptr ? std::string(to_string(type->dtype)) : std::string();
}

}  // namespace

const ArithmeticPeak* MachineFloor::find_peak(std::string_view type) const {
  const auto found = std::ranges::find(peaks, type, &ArithmeticPeak::type);
  return found != peaks.end() ? &*found : nullptr;
}

const CopySpeed* MachineFloor::find_copy(double bytes) const {
  for (const CopySpeed& speed : copies) {
    if (bytes <= static_cast<double>(speed.bytes)) return &speed;
  }
  return copies.empty() ? nullptr : &copies.back();
}

MachineFloor measure_floor(int threads, const kernels::CpuFeatures& features) {
  ThreadPool pool(std::max(1, threads));
  MachineFloor floor;
  floor.threads = pool.thread_count();
  for (const kernels::PeakLoop& loop : kernels::list_peak_loops(features)) {
    const double rate = best_rate(pool, [&](int /*thread*/, std::int64_t rounds) { loop.run(rounds); });
    floor.peaks.push_back(
        {std::string(kernels::to_string(loop.form)), std::string(loop.instructions), rate * loop.operations / 1e9});
  }
  floor.copies = measure_copies(pool);
  return floor;
}

MachineFloor published_floor(const HardwareRates& rates, const Capabilities& capabilities) {
  MachineFloor floor;
  floor.own_attention_is_float32 = false;
  floor.most_float32_rows = capabilities.weight_only_rows;
  const auto add = [&floor](DType type, double flops_per_second) {
    if (flops_per_second > 0)
      floor.peaks.push_back({std::string(to_string(type)), "published", flops_per_second / 1e9});
  };
  add(DType::kFloat32, rates.float32_flops_per_second);
  add(DType::kBFloat16, rates.matrix_flops_per_second);
  add(DType::kFloat16, rates.matrix_flops_per_second);
  for (const DType type : {DType::kInt8, DType::kFloat8E4M3FN}) {
    const auto& fast = capabilities.matrix_dtypes;
    if (std::ranges::find(fast, type) != fast.end()) add(type, rates.narrow_flops_per_second);
  }
  floor.copies.push_back({std::numeric_limits<std::size_t>::max(), rates.bytes_per_second / 1e9});
  return floor;
}

std::string_view to_string(Bound bound) {
  switch (bound) {
    case Bound::kNone: return "none";
    case Bound::kArithmetic: return "arithmetic";
    case Bound::kMemory: return "memory";
  }
  return "none";
}

std::optional<double> giga_per_second(const std::optional<double>& amount, double microseconds) {
  if (!amount || *amount <= 0 || microseconds <= 0) return std::nullopt;
  return *amount / (microseconds * 1e3);
}

std::optional<double> share_of_floor(const NodeFloor& floor, double microseconds) {
  if (floor.bound == Bound::kNone || microseconds <= 0) return std::nullopt;
  return floor.microseconds / microseconds;
}

NodeFloor find_floor(const ir::Graph& graph, const ir::Node& node, const ir::Bindings& sizes,
                     const MachineFloor& machine) {
  const ir::NodeFigures figures = ir::count_node(graph, node, sizes);
  NodeFloor floor;
  floor.flops = figures.flops;
  floor.bytes = figures.bytes;
  const auto raise = [&floor](Bound bound, double microseconds) {
    if (microseconds <= floor.microseconds) return;
    floor.bound = bound;
    floor.microseconds = microseconds;
  };
  if (figures.kind == "matmul" || figures.kind == "convolution" || figures.kind == "attention") {
    floor.type = product_type(graph, node, sizes, machine);
    const ArithmeticPeak* peak = machine.find_peak(floor.type);
    // Without instructions for bfloat16 the products are made by those of float32.
    if (peak == nullptr && floor.type == "bfloat16") {
      floor.type = "float32";
      peak = machine.find_peak(floor.type);
    }
    if (peak != nullptr && peak->gflops > 0 && floor.flops) {
      raise(Bound::kArithmetic, *floor.flops / (peak->gflops * 1e3));
    }
  }
  const CopySpeed* copy = floor.bytes ? machine.find_copy(*floor.bytes) : nullptr;
  if (copy != nullptr && copy->gbytes > 0) raise(Bound::kMemory, *floor.bytes / (copy->gbytes * 1e3));
  return floor;
}

}  // namespace kpt
