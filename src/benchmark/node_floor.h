// The machine's own limits, measured, and how near the nodes of a model come to them.
//
// A node needs at least as long as its arithmetic takes at the processor's peak, and at least as long as its bytes take
// to move: the longer of the two is its floor. Both limits are measured in the process that asks, on as many threads as
// a run has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/compile_figures.h"
#include "device/execution.h"
#include "ir/graph.h"
#include "kernels/cpu/cpu_features.h"

namespace kpt {

struct ArithmeticPeak {
  std::string type;          // "float32", "bfloat16", "int8"
  std::string instructions;  // "FMLA"; "plain C++"
  double gflops = 0;         // 10^9 operations a second, all threads together
};

// Bytes read and written a second by copies within a working set of that size.
struct CopySpeed {
  std::size_t bytes = 0;
  double gbytes = 0;  // 10^9 a second, all threads together
};

struct MachineFloor {
  int threads = 1;
  std::vector<ArithmeticPeak> peaks;     // float32 first
  std::vector<CopySpeed> copies;         // by size, smallest first; none where there was no memory for them
  bool own_attention_is_float32 = true;  // on the CPU; a GPU computes it in its inputs' type
  // With weights alone in few bits, products of more rows are made in the narrower of the input's and the result's
  // type; all others, on the CPU all, in float32.
  std::int64_t most_float32_rows = std::numeric_limits<std::int64_t>::max();

  const ArithmeticPeak* find_peak(std::string_view type) const;
  // Of the smallest set that holds so many bytes, else of the largest; null without any.
  const CopySpeed* find_copy(double bytes) const;
};

// Takes about a second: the best of several trials, by the processor time of the threads, so that other processes
// disturb it little.
MachineFloor measure_floor(int threads, const kernels::CpuFeatures& features);

// What data sheets say of a device, for the types that it has matrix units for.
MachineFloor published_floor(const HardwareRates& rates, const Capabilities& capabilities);

enum class Bound : std::uint8_t { kNone, kArithmetic, kMemory };
std::string_view to_string(Bound bound);

// What one node does, and its floor. Absent: its sizes depend on data, or the machine has no figure for its type.
struct NodeFloor {
  std::string type;  // that its products are made in; empty where it multiplies no matrices
  std::optional<double> flops;
  std::optional<double> bytes;
  Bound bound = Bound::kNone;
  double microseconds = 0;  // the floor; 0 with kNone
};

// 10^9 a second, from how much and how long; nothing where there is nothing to divide.
std::optional<double> giga_per_second(const std::optional<double>& amount, double microseconds);
// Which share of its floor a node reaches that took so long.
std::optional<double> share_of_floor(const NodeFloor& floor, double microseconds);

NodeFloor find_floor(const ir::Graph& graph, const ir::Node& node, const ir::Bindings& sizes,
                     const MachineFloor& machine);

}  // namespace kpt
