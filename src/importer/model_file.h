// A model file in: the graph, the weights, and what the file says about itself.
//
// The file is mapped and weights are used in place, so it must not be changed while a model made from it lives (replace
// it by renaming another over it). Nothing in it is executed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/weights.h"
#include "ir/graph.h"
#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

struct ImportOptions {
  std::string model_name;         // of several in one archive; empty: the only one
  std::filesystem::path weights;  // a safetensors file whose entries replace those of the archive, by name
  bool read_sample_inputs = false;
};

// The text of the model, kept for messages.
class ModelText;

struct ImportedModel {
  std::string file;  // for messages; empty when the model was not read from one
  ir::Graph graph;
  Weights weights;
  std::string producer;                    // "2.15.0+cu132"
  std::string schema_version;              // "8.20"
  std::vector<NamedTensor> sample_inputs;  // by input name; empty when not asked for, absent or of other types
  std::vector<std::string> notes;          // what was ignored or copied, a sentence each
  std::shared_ptr<const ModelText> text;
};

// Fails with
//   kNotFound, kPermissionDenied, kIo
//   kCorruptData      the file breaks its format; the message names file, entry and place
//   kVersionMismatch  a schema or an archive of another generation: "re-export with PyTorch 2.9 or newer"
//   kUnsupported      understood, but not offered: tensor subclasses, pickled objects, sparse layouts; by name
// Weights that the archive lacks (stripped) and that `options.weights` does not supply are kInvalidArgument, by name;
// so is a file of replacements that replaces nothing. Some names that the model lacks are a note.
Result<ImportedModel> import_model(const std::filesystem::path& path, const ImportOptions& options = {});

// What check_model_file() compared.
struct CheckedFile {
  std::size_t entries = 0;
  std::uint64_t bytes = 0;
};

// Reads the whole file, a `.pt2` or a `.kpt`, and compares the CRC-32 of every entry. import_model() does so for texts
// only: weights are mapped, and reading them would take as long as the disk does. Fails as opening the archive does,
// and with kCorruptData naming file and entry.
Result<CheckedFile> check_model_file(const std::filesystem::path& path);

// Where the user's Python produced a node: "model.py:12 in forward: return F.linear(…)". Empty when the file does not
// say. Read from the file's text only when asked.
std::string find_source_line(const ImportedModel& model, const ir::Node& node);

}  // namespace kpt
