// What a target says about a model before it compiles it: what it would refuse, and what would run but waste the
// hardware.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/symbolic.h"

namespace kpt {

enum class FindingKind : std::uint8_t { kSize, kOperator, kElementType, kMatrixUnit, kMemory };

// "size", "operator", "element_type", "matrix_unit", "memory".
std::string_view to_string(FindingKind kind);

struct ModelFinding {
  FindingKind kind = FindingKind::kSize;
  bool refuses = false;  // the model is not compiled as it is; otherwise it only costs time
  std::string place;     // a symbol, a node or an element type; empty: the model
  std::string text;      // one sentence with the figures
  bool operator==(const ModelFinding&) const = default;
};

// A Target may be one, too (dynamic_cast).
class ModelExaminer {
 public:
  virtual ~ModelExaminer() = default;
  // What refuses comes first. `sizes` need not name every symbol of the graph: what depends on the others is left out.
  virtual std::vector<ModelFinding> examine(const ir::Graph& graph, const ir::Bindings& sizes) const = 0;
  // Whether operators that cannot run are among them; otherwise Target::supports() is to be asked.
  virtual bool tells_operators() const { return true; }
};

}  // namespace kpt
