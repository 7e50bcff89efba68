// What a graph's inputs and outputs mean: the signature in the file, applied to the graph.
#pragma once

#include <string>
#include <vector>

#include "archive/json_reader.h"
#include "importer/graph_reader.h"
#include "importer/tree_spec.h"
#include "ir/graph.h"
#include "kpt/status.h"

namespace kpt::pt2 {

// Reads the GraphSignature at the reader's place and sets kinds, names of weights and targets of mutations in `graph`,
// which `values` has read. Fails with kCorruptData where signature and graph disagree, and with kUnsupported for
// signatures of training steps (losses, gradients), effect tokens and custom objects.
Status apply_signature(JsonReader* reader, GraphReader* values, ir::Graph* graph, const std::string& file);

// How the program is called, from module_call_graph[""].
struct CallSignature {
  std::string in_spec;
  std::string out_spec;
  std::vector<std::string> argument_names;
};

// Gives user inputs, fixed inputs and user outputs the names that callers know. Where the file's description does not
// fit, the exporter's own names stay and a note says so. Fails with kCorruptData for a description that is broken.
Status name_arguments(const CallSignature& call, const NamedTupleFields& fields, const std::string& file,
                      ir::Graph* graph, std::vector<std::string>* notes);

}  // namespace kpt::pt2
