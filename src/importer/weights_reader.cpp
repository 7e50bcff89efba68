#include "importer/weights_reader.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "archive/json_reader.h"
#include "base/text.h"
#include "importer/schema.h"

namespace kpt::pt2 {
namespace {

constexpr std::size_t kMaxConfigBytes = std::size_t{256} << 20;

Status read_payload(JsonReader* reader, TypeReader* types, Payload* payload) {
  KPT_RETURN_IF_ERROR(reader->object([&](std::string_view key) -> Status {
    if (key == "path_name") return reader->string(&payload->path_name);
    if (key == "use_pickle") return reader->boolean(&payload->use_pickle);
    if (key != "tensor_meta" || reader->peek() == JsonReader::Kind::kNull) return reader->skip();
    payload->is_tensor = true;
    return types->tensor(&payload->type);
  }));
  if (payload->path_name.empty()) return reader->error("an entry without 'path_name'");
  // The exporter writes plain names; a path could point at any entry of the archive.
  if (payload->path_name.find('/') != std::string::npos) return reader->error("a 'path_name' with a slash");
  return {};
}

// Extents of a weight; nothing when one is symbolic.
std::optional<Dims> constants(const std::vector<ir::Expr>& expressions) {
  Dims dims;
  for (const ir::Expr& expression : expressions) {
    if (!expression.constant()) return std::nullopt;
    dims.push_back(*expression.constant());
  }
  return dims;
}

std::string describe(DType dtype, const Dims& dims) { return std::string(to_string(dtype)) + dims.to_string(); }

class WeightsReader {
 public:
  WeightsReader(const ArchiveLayout& layout, const Weights& replacements, std::vector<std::string>* notes)
      : layout_(layout), replacements_(replacements), notes_(notes) {}

  Result<Weights> run(const ir::Graph& graph) {
    KPT_RETURN_IF_ERROR(read_config("weights", &weights_));
    KPT_RETURN_IF_ERROR(read_config("constants", &constants_));
    for (const ir::GraphInput& input : graph.inputs) {
      if (is_weight(input)) KPT_RETURN_IF_ERROR(replace(input, graph.at(input.value).tensor));
    }
    for (const ir::GraphInput& input : graph.inputs) {
      if (is_weight(input)) KPT_RETURN_IF_ERROR(read(input, graph.at(input.value).tensor));
    }
    if (!stripped_.empty()) return stripped_failure();
    if (!misaligned_.empty()) {
      const std::size_t others = misaligned_.size() - 1;
      notes_->push_back(layout_.place(misaligned_[0]) + ": not aligned to 8 bytes; copied" +
                        (others > 0 ? ", as are " + std::to_string(others) + " more" : ""));
    }
    return std::move(result_);
  }

 private:
  struct Found {
    const char* folder = "";
    const Payload* payload = nullptr;
  };

  // An archive of a model without weights may lack the file.
  Status read_config(const std::string& folder, PayloadConfig* config) {
    const std::string path = "data/" + folder + "/" + layout_.model() + "_" + folder + "_config.json";
    if (layout_.find(path) == nullptr) return {};
    std::string storage;
    KPT_ASSIGN_OR_RETURN(const std::string_view text, layout_.text(path, kMaxConfigBytes, &storage));
    KPT_ASSIGN_OR_RETURN(*config, read_payload_config(text, layout_.place(path)));
    return {};
  }

  Found find(std::string_view name) const {
    if (const auto found = weights_.find(name); found != weights_.end()) return {"weights", &found->second};
    if (const auto found = constants_.find(name); found != constants_.end()) return {"constants", &found->second};
    return {};
  }

  Status replace(const ir::GraphInput& input, const ir::TensorType& type) {
    const auto replacement = replacements_.find(input.name);
    if (replacement == replacements_.end()) return {};
    const Tensor& tensor = replacement->second;
    const std::optional<Dims> dims = constants(type.dims);
    if (tensor.dtype() != type.dtype || !dims || !(tensor.dims() == *dims)) {
      return fail(StatusCode::kInvalidArgument, input.name,
                  "the replacement is " + describe(tensor.dtype(), tensor.dims()) + ", the model needs " +
                      describe(type.dtype, dims.value_or(Dims())));
    }
    result_.emplace(input.name, tensor);
    if (const Found found = find(input.name); found.payload != nullptr) {
      replaced_.emplace(found.folder + ("/" + found.payload->path_name), Replaced{found.payload, tensor});
    }
    return {};
  }

  Status read(const ir::GraphInput& input, const ir::TensorType& type) {
    if (result_.contains(input.name)) return {};
    const auto [folder, payload] = find(input.name);
    if (payload == nullptr) {
      return fail(StatusCode::kCorruptData, input.name, "it is in neither the weights nor the constants");
    }
    if (!payload->is_tensor) return fail(StatusCode::kUnsupported, input.name, "a custom object instead of a tensor");
    if (payload->use_pickle) {
      return fail(StatusCode::kUnsupported, input.name,
                  "a pickled tensor subclass; convert it to a plain tensor before exporting");
    }
    if (payload->type.layout != ir::Layout::kStrided) {
      return fail(StatusCode::kUnsupported, input.name, "a sparse tensor");
    }
    if (payload->type.dtype != type.dtype || payload->type.dims != type.dims) {
      return fail(StatusCode::kCorruptData, input.name, "the graph takes another element type or shape");
    }
    const std::string path = std::string("data/") + folder + "/" + payload->path_name;
    const auto [begin, end] = replaced_.equal_range(folder + ("/" + payload->path_name));
    for (auto it = begin; it != end; ++it) {
      if (it->second.payload->type != payload->type) continue;
      result_.emplace(input.name, it->second.tensor);
      return {};
    }
    return view(input.name, path, payload->type);
  }

  Status view(const std::string& name, const std::string& path, const ir::TensorType& type) {
    const std::optional<Dims> dims = constants(type.dims);
    const std::optional<Dims> strides = constants(type.strides);
    const std::optional<std::int64_t> offset = type.storage_offset.constant();
    if (!dims || !strides || !offset) return fail(StatusCode::kCorruptData, name, "its sizes are not constant");
    const std::optional<std::int64_t> count = count_elements(*dims);
    if (!count) return fail(StatusCode::kCorruptData, name, "its size overflows");
    const ZipEntry* entry = layout_.find(path);
    if (entry == nullptr) return fail(StatusCode::kCorruptData, name, "the entry '" + path + "' is missing");
    if (entry->size == 0 && *count > 0) {
      stripped_.push_back(name);
      return {};
    }
    KPT_ASSIGN_OR_RETURN(const std::shared_ptr<Buffer> buffer, storage(*entry, path, kAlignment));
    Result<Tensor> tensor = Tensor::from_buffer(buffer, type.dtype, *dims, *strides, *offset);
    if (!tensor.ok()) {
      return fail(StatusCode::kCorruptData, name, "'" + path + "' does not hold it: " + tensor.status().message());
    }
    result_.emplace(name, std::move(tensor).value());
    return {};
  }

  // Of the widest element: views of several types on one entry share one buffer.
  static constexpr std::size_t kAlignment = 8;

  // One buffer per entry, whoever uses it.
  Result<std::shared_ptr<Buffer>> storage(const ZipEntry& entry, const std::string& path, std::size_t alignment) {
    std::shared_ptr<Buffer>& buffer = buffers_[path];
    const auto is_aligned = [alignment](const void* data) {
      return reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
    };
    if (buffer != nullptr && is_aligned(buffer->data())) return buffer;
    if (entry.deflated) {
      return Status(StatusCode::kUnsupported, layout_.place(path) +
                                                  ": compressed weights cannot be used in place; "
                                                  "save the model with torch.export.save");
    }
    KPT_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, layout_.archive().view(entry));
    const bool aligned = is_aligned(bytes.data());
    if (aligned && layout_.archive().file() != nullptr) {
      buffer = make_buffer(layout_.archive().file(), bytes);
      return buffer;
    }
    if (!aligned) misaligned_.push_back(path);
    const std::int64_t size = static_cast<std::int64_t>(bytes.size());
    KPT_ASSIGN_OR_RETURN(const Tensor copy, Tensor::from_bytes(DType::kUInt8, {{size}}, bytes));
    buffer = copy.buffer();
    return buffer;
  }

  Status stripped_failure() const {
    constexpr std::size_t kShown = 3;
    std::vector<std::string> shown(stripped_.begin(),
                                   stripped_.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, stripped_.size())));
    std::string names = join(shown, ", ");
    if (stripped_.size() > kShown) names += " and " + std::to_string(stripped_.size() - kShown) + " more";
    return {StatusCode::kInvalidArgument, layout_.archive().name() + ": the archive has no data for " + names +
                                              "; give the weights as a safetensors file"};
  }

  Status fail(StatusCode code, const std::string& name, const std::string& what) const {
    return {code, layout_.archive().name() + ": weight '" + printable(name, 256) + "': " + what};
  }

  struct Replaced {
    const Payload* payload = nullptr;
    Tensor tensor;
  };

  const ArchiveLayout& layout_;
  const Weights& replacements_;
  std::vector<std::string>* notes_;
  PayloadConfig weights_;
  PayloadConfig constants_;
  std::map<std::string, std::shared_ptr<Buffer>> buffers_;  // by path
  std::multimap<std::string, Replaced> replaced_;           // by path
  std::vector<std::string> stripped_;
  std::vector<std::string> misaligned_;  // paths
  Weights result_;
};

}  // namespace

Result<PayloadConfig> read_payload_config(std::string_view text, const std::string& name) {
  JsonReader reader(text, name);
  TypeReader types(&reader);
  PayloadConfig config;
  bool seen = false;
  KPT_RETURN_IF_ERROR(reader.object([&](std::string_view key) -> Status {
    if (key != "config") return reader.skip();
    seen = true;
    return reader.object(
        [&](std::string_view fqn) -> Status { return read_payload(&reader, &types, &config[std::string(fqn)]); });
  }));
  KPT_RETURN_IF_ERROR(reader.finish());
  if (!seen) return reader.error("no 'config' in it");
  return config;
}

Result<Weights> read_weights(const ArchiveLayout& layout, const ir::Graph& graph, const Weights& replacements,
                             std::vector<std::string>* notes) {
  return WeightsReader(layout, replacements, notes).run(graph);
}

}  // namespace kpt::pt2
