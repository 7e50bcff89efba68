// The schema's Graph as an ir::Graph: inputs, nodes, outputs and the types of all values.
//
// Nodes stand before the types in the file, so names become values when first seen and get their types at the end.
// What the schema can say but the importer does not offer is kUnsupported, with the node's name; everything else that
// is wrong is kCorruptData, with line, column and path.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "archive/json_reader.h"
#include "importer/schema.h"
#include "ir/graph.h"
#include "kpt/status.h"

namespace kpt::pt2 {

class GraphReader {
 public:
  // Sub-graphs inside sub-graphs; more is kCorruptData.
  static constexpr int kMaxDepth = 32;

  // `reader` must outlive this; `file` is for messages.
  GraphReader(JsonReader* reader, std::string file) : reader_(reader), types_(reader), file_(std::move(file)) {}

  // Reads the Graph object at the reader's place. All inputs are kUser (or kFixed, for constants) under the names of
  // their values, all outputs kUser under no name: apply_signature() says more about those of the top graph.
  Result<ir::Graph> read();

  // Reads one Argument of the graph that read() gave last. Values must be known there; others are kCorruptData.
  Status known_argument(ir::Argument* argument);

 private:
  // One graph while it is read.
  struct Scope {
    ir::Graph graph;
    std::unordered_map<std::string, ir::ValueId> ids;
    std::vector<bool> typed;           // by value
    std::vector<ir::ValueKind> kinds;  // likewise; stays when the graph is given away
    bool closed = false;               // no further values
  };
  struct Tag;
  static const Tag* find_tag(std::string_view name);

  Result<ir::Graph> graph();
  Status graph_inputs();
  Status graph_outputs();
  Status nodes();
  Status node(ir::Node* node);
  Status node_input(ir::NamedArgument* argument);
  Status node_output(ir::Output* output);
  Status value_type(std::string_view name, ir::ValueKind kind);
  Status require_types() const;

  Status argument(ir::Argument* argument);
  // {"name": "x"} of a tensor, {"as_name": "s0"} | {"as_int": 1} of a symbolic scalar.
  Status tensor_name(ir::Argument* argument);
  Status listed_name(ir::Argument* argument);
  Status scalar(ir::ValueKind kind, ir::Argument* argument);
  Status optional_tensor(ir::Argument* argument);
  Status constant(ir::ElementKind kind, ir::Argument* argument);
  Status complex(ir::Argument* argument);
  Status subgraph(ir::Argument* argument);
  template <typename ReadItem>
  Status list(ir::ElementKind kind, ir::Argument* argument, const ReadItem& read_item);
  Status use_value(std::string name, ir::ValueKind kind, ir::Argument* argument);
  Status refuse(std::string_view tag);
  Status unsupported(const std::string& where) const;

  JsonReader* reader_;
  TypeReader types_;
  std::string file_;
  std::unique_ptr<Scope> scope_;
  int depth_ = 0;
  std::string refusal_;  // what the node being read has that is not offered; its name stands behind its arguments
};

}  // namespace kpt::pt2
