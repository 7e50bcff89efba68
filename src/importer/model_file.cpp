#include "importer/model_file.h"

#include <set>
#include <utility>

#include "archive/json_reader.h"
#include "archive/mapped_file.h"
#include "archive/zip.h"
#include "base/text.h"
#include "importer/archive_layout.h"
#include "importer/check_progress.h"
#include "importer/import_archive.h"
#include "importer/normalize.h"
#include "importer/program.h"
#include "importer/sample_inputs.h"
#include "importer/weights_reader.h"
#include "ir/verifier.h"
#include "tensor_files/safetensors.h"

namespace kpt {
namespace {

constexpr std::size_t kMaxModelBytes = std::size_t{1} << 30;

// "File "model.py", line 12, in forward" and the line of code below it.
struct Frame {
  std::string_view file;
  std::string_view line;
  std::string_view function;
  std::string_view code;
};

// The text between `before` and `after`, which must follow each other in `text`.
std::string_view between(std::string_view text, std::string_view before, std::string_view after) {
  const std::size_t start = text.find(before);
  if (start == std::string_view::npos) return {};
  text.remove_prefix(start + before.size());
  const std::size_t end = after.empty() ? text.size() : text.find(after);
  return end == std::string_view::npos ? std::string_view() : text.substr(0, end);
}

// The file of ImportOptions::weights, by name.
Result<Weights> read_replacements(const std::filesystem::path& path) {
  Weights replacements;
  if (path.empty()) return replacements;
  KPT_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  KPT_ASSIGN_OR_RETURN(std::vector<NamedTensor> tensors, read_safetensors(file));
  for (NamedTensor& tensor : tensors) replacements.emplace(std::move(tensor.name), std::move(tensor.tensor));
  return replacements;
}

// The weight that was meant: one letter off, or with another prefix ("model.head.weight" for "head.weight").
std::string guess_weight(const std::string& name, const std::vector<std::string>& weights) {
  if (const auto nearest = find_nearest(name, weights)) return *nearest;
  for (const std::string& weight : weights) {
    if (name.ends_with("." + weight) || weight.ends_with("." + name)) return weight;
  }
  return {};
}

// Replacements that the model has no place for: some are a note, all of them are a mistake.
Status check_replacements(const std::filesystem::path& path, const Weights& replacements, const ir::Graph& graph,
                          std::vector<std::string>* notes) {
  if (path.empty()) return {};
  if (replacements.empty()) return {StatusCode::kInvalidArgument, path.string() + ": it holds no tensor"};
  std::vector<std::string> weights;
  for (const ir::GraphInput& input : graph.inputs) {
    if (is_weight(input)) weights.push_back(input.name);
  }
  const std::set<std::string_view> known(weights.begin(), weights.end());
  constexpr std::size_t kListed = 5;
  constexpr std::size_t kShown = 128;
  std::size_t unknown = 0;
  std::string list;
  for (const auto& [name, tensor] : replacements) {
    if (known.contains(name) || ++unknown > kListed) continue;
    const std::string guess = guess_weight(name, weights);
    list += (unknown == 1 ? "'" : ", '") + printable(name, kShown) + "'";
    if (!guess.empty()) list += " (did you mean '" + printable(guess, kShown) + "'?)";
  }
  if (unknown == 0) return {};
  if (unknown > kListed) list += " and " + std::to_string(unknown - kListed) + " more";
  if (unknown < replacements.size()) {
    notes->push_back(path.string() + ": the model has no weight " + list + "; ignored");
    return {};
  }
  const std::string example =
      weights.empty() ? "no weights" : "weights such as '" + printable(weights[0], kShown) + "'";
  return {StatusCode::kInvalidArgument,
          path.string() + ": nothing in it replaces a weight: the model has no " + list + "; it has " + example};
}

// Also code that torch.fx generated on the way to the graph: "<eval_with_key>.12".
bool is_torch_itself(std::string_view file) {
  return file.starts_with("<") || file.starts_with("torch/") || file.find("-packages/torch/") != std::string_view::npos;
}

}  // namespace

std::string describe_stack_trace(std::string_view trace) {
  Frame chosen;
  Frame current;
  const auto finish = [&] {
    if (current.file.empty()) return;
    if (chosen.file.empty() || !is_torch_itself(current.file) || is_torch_itself(chosen.file)) chosen = current;
  };
  for (const std::string_view raw : split(trace, '\n')) {
    const std::string_view line = trim(raw);
    if (line.starts_with("File \"")) {
      finish();
      current = {between(line, "File \"", "\""), between(line, "line ", ","), between(line, ", in ", ""), {}};
    } else if (current.code.empty()) {
      current.code = line;
    }
  }
  finish();
  if (chosen.file.empty()) return {};
  const std::size_t slash = chosen.file.rfind('/');
  std::string text(slash == std::string_view::npos ? chosen.file : chosen.file.substr(slash + 1));
  text += ":" + std::string(chosen.line);
  if (!chosen.function.empty()) text += " in " + std::string(chosen.function);
  if (!chosen.code.empty()) text += ": " + std::string(chosen.code);
  constexpr std::size_t kShown = 300;
  return printable(text, kShown);
}

Result<ImportedModel> import_archive(const ZipArchive& archive, const ImportOptions& options) {
  KPT_ASSIGN_OR_RETURN(const pt2::ArchiveLayout layout, pt2::ArchiveLayout::open(&archive, options.model_name));
  const std::string path = "models/" + layout.model() + ".json";
  std::string storage;
  KPT_ASSIGN_OR_RETURN(std::string_view text, layout.text(path, kMaxModelBytes, &storage));
  std::shared_ptr<const ModelText> kept;
  if (archive.file() != nullptr && storage.empty()) {
    kept = std::make_shared<const ModelText>(archive.file(), text);
  } else {
    kept = std::make_shared<const ModelText>(storage.empty() ? std::string(text) : std::move(storage));
  }
  const std::string place = layout.place(path);
  KPT_ASSIGN_OR_RETURN(pt2::Program program, pt2::read_program(kept->text(), place));

  ImportedModel model;
  model.file = archive.name();
  model.text = std::move(kept);
  model.graph = std::move(program.graph);
  model.producer = std::move(program.producer);
  model.schema_version = std::move(program.schema_version);
  model.notes = std::move(program.notes);
  // Before anything follows its values: normalising relies on a graph that is well formed.
  if (const Status status = ir::verify(model.graph); !status.ok()) {
    return Status(status.code(), place + ": " + status.message());
  }
  if (const Status status = normalize(&model.graph); !status.ok()) {
    return Status(status.code(), place + ": " + status.message());
  }
  if (const Status status = ir::verify(model.graph); !status.ok()) {
    return Status(StatusCode::kInternal, place + ": normalising broke the graph: " + status.message());
  }
  KPT_ASSIGN_OR_RETURN(const Weights replacements, read_replacements(options.weights));
  KPT_RETURN_IF_ERROR(check_replacements(options.weights, replacements, model.graph, &model.notes));
  KPT_ASSIGN_OR_RETURN(model.weights, pt2::read_weights(layout, model.graph, replacements, &model.notes));
  if (options.read_sample_inputs) model.sample_inputs = pt2::read_sample_inputs(layout, model.graph, &model.notes);
  return model;
}

Result<ImportedModel> import_model(const std::filesystem::path& path, const ImportOptions& options) {
  KPT_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  KPT_ASSIGN_OR_RETURN(const ZipArchive archive, ZipArchive::open(std::move(file)));
  return import_archive(archive, options);
}

Result<CheckedFile> check_model_file(const std::filesystem::path& path) { return check_model_file(path, {}); }

Result<CheckedFile> check_model_file(const std::filesystem::path& path, const std::function<void(double)>& progress) {
  KPT_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  KPT_ASSIGN_OR_RETURN(const ZipArchive archive, ZipArchive::open(std::move(file)));
  std::uint64_t all = 0;
  for (const ZipEntry& entry : archive.entries()) all += entry.compressed_size;
  std::uint64_t done = 0;
  CheckedFile checked;
  for (const ZipEntry& entry : archive.entries()) {
    KPT_RETURN_IF_ERROR(archive.check(entry));
    ++checked.entries;
    checked.bytes += entry.size;
    done += entry.compressed_size;
    if (progress) progress(all == 0 ? 1 : static_cast<double>(done) / static_cast<double>(all));
  }
  return checked;
}

std::string find_source_line(const ImportedModel& model, const ir::Node& node) {
  if (model.text == nullptr || node.metadata_offset == 0 || node.metadata_offset >= model.text->text().size())
    return {};
  JsonReader reader(model.text->text(), "model");
  reader.seek(node.metadata_offset);
  std::string trace;
  const Status status = reader.object(
      [&](std::string_view key) -> Status { return key == "stack_trace" ? reader.string(&trace) : reader.skip(); });
  return status.ok() ? describe_stack_trace(trace) : std::string();
}

}  // namespace kpt
