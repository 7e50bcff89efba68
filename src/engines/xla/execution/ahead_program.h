// A graph compiled ahead of time by a PJRT plugin: the serialized executable, what the compiler said, and the graph it
// came from.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "device/execution.h"
#include "engines/xla/pjrt/topology_process.h"
#include "engines/xla/stablehlo/lower.h"

namespace kpt {

// How a backend's stored programs begin.
struct AheadForm {
  std::string_view word;
  int version = 0;
};

// What an executable was made from and for, each one line.
struct AheadFacts {
  std::string sizes;       // the values of the graph's symbols, of write_sizes()
  std::string module;      // of hash_module(): its arguments and results are the executable's
  std::string conditions;  // what else decides whether the executable may be used; the backend reads it
};

class AheadProgram final : public Program {
 public:
  AheadProgram(const AheadForm& form, std::string target, ir::Graph graph, AheadFacts facts,
               pjrt::TopologyProgram compiled)
      : form_(form),
        target_(std::move(target)),
        graph_(std::move(graph)),
        facts_(std::move(facts)),
        compiled_(std::move(compiled)) {}
  // Fails with kCorruptData, and with kVersionMismatch for another version of the form or another target.
  static Result<std::unique_ptr<Program>> deserialize(const AheadForm& form, std::string_view target,
                                                      std::string_view bytes);

  std::string_view target() const override { return target_; }
  const ir::Graph& graph() const override { return graph_; }
  const CompileFigures* figures() const override { return &compiled_.figures; }
  Result<std::string> serialize() const override;

  const AheadFacts& facts() const { return facts_; }
  // What the plugin that compiled it loads on such a device.
  const std::string& executable() const { return compiled_.executable; }

 private:
  AheadForm form_;
  std::string target_;
  ir::Graph graph_;
  AheadFacts facts_;
  pjrt::TopologyProgram compiled_;
};

// Tells modules apart that take their arguments, or give their results, otherwise. Of the lowered text alone: the
// precision of products is a condition, and a buffer that is given away or not is so either way.
std::string hash_module(const xla::LoweredModule& module);

// Whether the bytes begin as a stored one of this form does, of whichever version.
bool is_ahead_program(const AheadForm& form, std::string_view bytes);

// Ok when every symbol of the graph has a value in its range, else kInvalidArgument; `what` is what the program is for:
// "a TPU".
Status check_sizes(const ir::Graph& graph, const ir::Bindings& sizes, std::string_view what);

// "s0=4,s1=16"; empty for no symbols.
std::string write_sizes(const ir::Bindings& sizes);
// The values of the graph's symbols from what write_sizes() gave; the names are those of the graph. Fails with
// kCorruptData when a symbol has no value or one out of its range.
Result<ir::Bindings> read_sizes(const ir::Graph& graph, std::string_view sizes);

// A compiled module as bytes, for the compile cache. Fails with kCorruptData.
std::string pack_topology_program(const pjrt::TopologyProgram& program);
Result<pjrt::TopologyProgram> unpack_topology_program(std::string_view bytes);

}  // namespace kpt
