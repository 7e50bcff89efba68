// The weights of an archive: views of the mapped file, described by two small JSON entries.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "device/weights.h"
#include "importer/archive_layout.h"
#include "ir/graph.h"
#include "kpt/status.h"

namespace kpt::pt2 {

// One entry of a weights or constants config.
struct Payload {
  std::string path_name;    // of the file beside the config; several names may share one
  bool use_pickle = false;  // tensor subclasses, custom objects
  bool is_tensor = false;   // otherwise a custom object
  ir::TensorType type;      // sizes, strides and offset are constants
};
using PayloadConfig = std::map<std::string, Payload, std::less<>>;

// `text` is {"config": {"<name>": {"path_name": …, "tensor_meta": …}}}; `name` is for messages.
Result<PayloadConfig> read_payload_config(std::string_view text, const std::string& name);

// All parameters, buffers and constants that `graph` takes. Data is not copied unless it is misaligned (a note).
// `replacements` go before what the archive has; they must have the graph's types and shapes. A name that shares its
// data with a replaced one follows it: where they are not the same view, the entry is copied, the replacement written
// there, and all are views of the copy. Fails with
//   kCorruptData      data missing, too short, or of another type than the graph says
//   kUnsupported      pickled, sparse or compressed data, by name
//   kInvalidArgument  data stripped from the archive and not replaced; a replacement that does not fit, or that says
//                     something else than another of the same memory
Result<Weights> read_weights(const ArchiveLayout& layout, const ir::Graph& graph, const Weights& replacements,
                             std::vector<std::string>* notes);

}  // namespace kpt::pt2
