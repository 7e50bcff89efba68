// The schema's ExportedProgram, the JSON below models/ in an archive: the graph, its signature and the names that
// callers use, put together as one ir::Graph.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "kpt/status.h"

namespace kpt::pt2 {

struct Program {
  ir::Graph graph;
  std::string producer;        // "2.15.0+cu132"
  std::string schema_version;  // "8.20"
  std::vector<std::string> notes;
};

// `text` is the JSON, `name` stands for it in messages ("model.pt2: models/model.json"). Fails with kCorruptData,
// kVersionMismatch (another schema major than 8) and kUnsupported. The graph is not verified yet.
Result<Program> read_program(std::string_view text, const std::string& name);

}  // namespace kpt::pt2
