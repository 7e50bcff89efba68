// What a compiler says about a program before it runs anywhere, and what published data sheets say about the hardware.
// Nothing here was measured: whoever shows it calls it an estimate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kpt {

// What one kernel of a program takes of the hardware, as its code says.
struct KernelFigures {
  std::string name;
  std::uint64_t threads = 0;  // the most of a workgroup
  std::uint64_t vector_registers = 0;
  std::uint64_t accumulation_registers = 0;
  std::uint64_t scalar_registers = 0;
  std::uint64_t vector_spills = 0;
  std::uint64_t scalar_spills = 0;
  std::uint64_t lds_bytes = 0;      // memory that a workgroup shares
  std::uint64_t private_bytes = 0;  // of a lane
  // Waves of it that one SIMD holds when the device is full of workgroups of the most threads, and the most of any
  // kernel, by the architecture's table.
  std::uint64_t waves = 0;
  std::uint64_t most_waves = 0;
  bool operator==(const KernelFigures&) const = default;
};

// A figure is absent where the compiler does not tell it.
struct CompileFigures {
  std::string compiler;     // name and version of the compiler that made the program
  std::string device_kind;  // as the compiler calls the device: "TPU v5 lite"
  std::optional<std::uint64_t> code_bytes;
  // Memory of one device while the program runs. Outputs that reuse arguments' memory count in both.
  std::optional<std::uint64_t> argument_bytes;
  std::optional<std::uint64_t> output_bytes;
  std::optional<std::uint64_t> alias_bytes;  // of the outputs that lie in arguments' memory
  std::optional<std::uint64_t> temporary_bytes;
  std::optional<std::uint64_t> peak_bytes;
  // One run.
  std::optional<double> flops;
  std::optional<double> transcendentals;
  std::optional<double> bytes_accessed;
  std::optional<double> compiler_seconds;  // the compiler's own estimate of the time
  std::vector<KernelFigures> kernels;      // that a run launches, by name; empty where the compiler makes one program
  bool operator==(const CompileFigures&) const = default;

  // Arguments, outputs, temporaries and code, what is shared once; nothing when the compiler does not tell them.
  std::optional<std::uint64_t> total_bytes() const;
  // The most that the program takes of a device: the larger of that sum and the compiler's own peak; nothing when it
  // tells neither.
  std::optional<std::uint64_t> needed_bytes() const;
};

// What compiling took since a target was made.
struct CompileStatistics {
  std::uint64_t compilations = 0;  // that the compiler was started for
  std::uint64_t hits = 0;          // of the cache
  std::uint64_t misses = 0;
  std::uint64_t errors = 0;
  double hit_rate() const {
    return hits + misses == 0 ? 0.0 : static_cast<double>(hits) / static_cast<double>(hits + misses);
  }
  CompileStatistics& operator+=(const CompileStatistics& other) {
    compilations += other.compilations;
    hits += other.hits;
    misses += other.misses;
    errors += other.errors;
    return *this;
  }
  bool operator==(const CompileStatistics&) const = default;
};

// "1 compilations, 3 hits, 1 misses, 0 errors, hit rate 75.0 %"; without a rate while nothing was asked for.
std::string to_text(const CompileStatistics& statistics);

// Published peak rates of one device, as a program sees it.
struct HardwareRates {
  std::uint64_t memory_bytes = 0;
  double bytes_per_second = 0;
  double matrix_flops_per_second = 0;   // dense bfloat16 products
  double float32_flops_per_second = 0;  // without matrix units; 0 where it is not published
  double narrow_flops_per_second = 0;   // dense products of eight bits, where they are faster than bfloat16's
  double wide_flops_per_second = 0;     // products of float32, where they take passes of bfloat16; 0: unknown
  int devices_per_chip = 1;             // prices are of chips
};

// The least time that the rates allow for this work: the slower of arithmetic and memory traffic. Nothing without
// figures or rates.
std::optional<double> estimate_seconds(const CompileFigures& figures, const HardwareRates& rates);

}  // namespace kpt
