// What a program may take of a TPU's memory: the option tpu.memory_percent.
#pragma once

#include <cstdint>
#include <string>

#include "device/compile_figures.h"
#include "kpt/status.h"

namespace kpt {

struct TpuMemory {
  std::string target;              // named in the sentence
  std::uint64_t device_bytes = 0;  // of one device
  std::uint64_t usable_bytes = 0;  // that a program may take of it

  TpuMemory(std::string name, std::uint64_t bytes, int percent)
      : target(std::move(name)),
        device_bytes(bytes),
        usable_bytes(bytes - bytes / 100 * static_cast<std::uint64_t>(100 - percent)) {}

  // Of a compiled program; fine where the compiler does not tell its memory.
  Status check(const CompileFigures& figures) const;
  // kOutOfMemory with the figures: "weights and inputs take 36.5 GiB, outputs 18.3 GiB".
  Status too_large(const std::string& figures) const;
};

}  // namespace kpt
