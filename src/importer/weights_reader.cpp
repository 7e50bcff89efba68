#include "importer/weights_reader.h"

#include <algorithm>
#include <array>
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

// The bytes of an entry between the first and the last that a tensor looks at. Nothing for one without elements, and
// for one whose place makes no sense, which is told when it is read.
struct Extent {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool overlaps(const Extent& other) const { return begin < other.end && other.begin < end; }
};
std::optional<Extent> find_extent(const ir::TensorType& type) {
  const std::optional<Dims> dims = constants(type.dims);
  const std::optional<Dims> strides = constants(type.strides);
  const std::optional<std::int64_t> offset = type.storage_offset.constant();
  if (!dims || !strides || dims->size() != strides->size() || !offset || *offset < 0) return std::nullopt;
  std::int64_t last = *offset;
  for (std::size_t axis = 0; axis < dims->size(); ++axis) {
    std::int64_t reach = 0;
    if ((*dims)[axis] <= 0 || (*strides)[axis] < 0 ||
        __builtin_mul_overflow((*dims)[axis] - 1, (*strides)[axis], &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return std::nullopt;
    }
  }
  const auto width = static_cast<std::int64_t>(element_bytes(type.dtype));
  Extent extent;
  if (__builtin_mul_overflow(last, width, &extent.end) || __builtin_add_overflow(extent.end, width, &extent.end)) {
    return std::nullopt;
  }
  extent.begin = *offset * width;
  return extent;
}

// Where two tensors of one entry have their elements; other things that are written beside that may differ.
bool have_same_place(const ir::TensorType& a, const ir::TensorType& b) {
  return a.dtype == b.dtype && a.dims == b.dims && a.strides == b.strides && a.storage_offset == b.storage_offset;
}

// Whether a tensor's elements lie side by side, in whatever order, and none twice.
bool is_dense(const ir::TensorType& type) {
  const Dims dims = *constants(type.dims);
  const Dims strides = *constants(type.strides);
  std::vector<std::pair<std::int64_t, std::int64_t>> axes;  // stride, extent
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] != 1) axes.emplace_back(strides[axis], dims[axis]);
  }
  std::sort(axes.begin(), axes.end());
  std::int64_t expected = 1;
  for (const auto& [stride, extent] : axes) {
    if (stride != expected) return false;
    expected *= extent;
  }
  return true;
}

// Writes contiguous elements to where `target` has its own.
void write_elements(const std::byte* source, const Tensor& target) {
  const std::size_t width = element_bytes(target.dtype());
  auto* const first = static_cast<std::byte*>(target.data());
  std::array<std::int64_t, kMaxRank> index{};
  std::int64_t offset = 0;
  for (std::int64_t left = target.element_count(); left > 0; --left, source += width) {
    std::memcpy(first + static_cast<std::size_t>(offset) * width, source, width);
    for (std::size_t axis = target.dims().size(); axis-- > 0;) {
      offset += target.strides()[axis];
      if (++index[axis] < target.dims()[axis]) break;
      offset -= index[axis] * target.strides()[axis];
      index[axis] = 0;
    }
  }
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
      if (is_weight(input)) find_sharer(input, graph.at(input.value).tensor);
    }
    for (const auto& [path, sharers] : shared_) KPT_RETURN_IF_ERROR(share(path, sharers));
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
    std::string path() const { return std::string("data/") + folder + "/" + payload->path_name; }
  };

  // A weight that has its data in an entry of which something is replaced.
  struct Sharer {
    std::string name;
    const ir::TensorType* type = nullptr;
    Extent extent;
    bool replaced = false;
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
    if (const Found found = find(input.name); found.payload != nullptr) shared_.try_emplace(found.path());
    return {};
  }

  // Notes who has data in an entry of which something is replaced.
  void find_sharer(const ir::GraphInput& input, const ir::TensorType& type) {
    const Found found = find(input.name);
    if (found.payload == nullptr || !found.payload->is_tensor || found.payload->use_pickle) return;
    const ir::TensorType& own = found.payload->type;
    if (own.layout != ir::Layout::kStrided || own.dtype != type.dtype || own.dims != type.dims) return;
    const auto entry = shared_.find(found.path());
    const std::optional<Extent> extent = find_extent(own);
    if (entry == shared_.end() || !extent) return;
    entry->second.push_back({input.name, &own, *extent, result_.contains(input.name)});
  }

  // Whose data is shared with a replaced weight follows it, as it does in PyTorch.
  Status share(const std::string& path, const std::vector<Sharer>& sharers) {
    std::vector<const Sharer*> replaced;
    std::optional<Extent> changed;
    for (const Sharer& sharer : sharers) {
      if (!sharer.replaced) continue;
      replaced.push_back(&sharer);
      if (!changed) changed = sharer.extent;
      changed = Extent{std::min(changed->begin, sharer.extent.begin), std::max(changed->end, sharer.extent.end)};
    }
    std::vector<const Sharer*> followers;
    bool tied = replaced.size() == 1;
    for (const Sharer& sharer : sharers) {
      if (sharer.replaced || !changed || !sharer.extent.overlaps(*changed)) continue;
      followers.push_back(&sharer);
      tied = tied && have_same_place(*sharer.type, *replaced[0]->type);
    }
    if (followers.empty()) return {};
    if (!tied) return merge(path, *changed, replaced, followers);
    const Tensor tensor = result_.at(replaced[0]->name);  // nothing is copied
    for (const Sharer* sharer : followers) result_.emplace(sharer->name, tensor);
    return {};
  }

  // Lays what is replaced over a copy of the entry, and gives all of these names views of that.
  Status merge(const std::string& path, const Extent& changed, const std::vector<const Sharer*>& replaced,
               const std::vector<const Sharer*>& followers) {
    const ZipEntry* entry = layout_.find(path);
    if (entry == nullptr) return {};  // told when it is read
    Tensor merged;
    if (entry->size > 0) {
      KPT_ASSIGN_OR_RETURN(const std::shared_ptr<Buffer> old, storage(*entry, path, kAlignment));
      const std::span<const std::byte> bytes(static_cast<const std::byte*>(old->data()), old->bytes());
      KPT_ASSIGN_OR_RETURN(merged, Tensor::from_bytes(DType::kUInt8, {{std::ssize(bytes)}}, bytes));
    } else {  // stripped: one replacement must have it all
      const auto has_all = [&](const Sharer* sharer) {
        return sharer->extent.begin == 0 && sharer->extent.end == changed.end && is_dense(*sharer->type);
      };
      if (std::none_of(replaced.begin(), replaced.end(), has_all)) return {};  // told when the others are read
      KPT_ASSIGN_OR_RETURN(merged, Tensor::empty(DType::kUInt8, {{changed.end}}));
    }
    for (const Sharer* sharer : replaced) {
      KPT_ASSIGN_OR_RETURN(const Tensor target, find_place(*sharer, path, merged.buffer()));
      KPT_ASSIGN_OR_RETURN(const Tensor given, result_.at(sharer->name).contiguous_copy());
      write_elements(static_cast<const std::byte*>(given.data()), target);
    }
    for (const Sharer* sharer : replaced) {
      KPT_ASSIGN_OR_RETURN(Tensor target, find_place(*sharer, path, merged.buffer()));
      if (replaced.size() > 1 || !is_dense(*sharer->type))
        KPT_RETURN_IF_ERROR(check_replaced(*sharer, target, replaced));
      result_.insert_or_assign(sharer->name, std::move(target));
    }
    for (const Sharer* sharer : followers) {
      KPT_ASSIGN_OR_RETURN(Tensor target, find_place(*sharer, path, merged.buffer()));
      result_.emplace(sharer->name, std::move(target));
    }
    return {};
  }

  // Whether a replacement still holds what was given when all that share its memory are written.
  Status check_replaced(const Sharer& sharer, const Tensor& target, const std::vector<const Sharer*>& replaced) const {
    KPT_ASSIGN_OR_RETURN(const Tensor given, result_.at(sharer.name).contiguous_copy());
    KPT_ASSIGN_OR_RETURN(const Tensor found, target.contiguous_copy());
    if (std::memcmp(given.data(), found.data(), given.bytes()) == 0) return {};
    std::vector<std::string> names;
    for (const Sharer* other : replaced) {
      if (other != &sharer && other->extent.overlaps(sharer.extent))
        names.push_back("'" + printable(other->name, 256) + "'");
    }
    return fail(StatusCode::kInvalidArgument, sharer.name,
                names.empty() ? "elements that are one in the model's memory differ in the replacement"
                              : "it shares memory with " + join(names, ", ") + ", and their replacements differ there");
  }

  Result<Tensor> find_place(const Sharer& sharer, const std::string& path,
                            const std::shared_ptr<Buffer>& buffer) const {
    Result<Tensor> tensor =
        Tensor::from_buffer(buffer, sharer.type->dtype, *constants(sharer.type->dims), *constants(sharer.type->strides),
                            *sharer.type->storage_offset.constant());
    if (tensor.ok()) return tensor;
    return fail(StatusCode::kCorruptData, sharer.name, "'" + path + "' does not hold it: " + tensor.status().message());
  }

  Status read(const ir::GraphInput& input, const ir::TensorType& type) {
    if (result_.contains(input.name)) return {};
    const Found found = find(input.name);
    const Payload* payload = found.payload;
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
    return view(input.name, found.path(), payload->type);
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

  const ArchiveLayout& layout_;
  const Weights& replacements_;
  std::vector<std::string>* notes_;
  PayloadConfig weights_;
  PayloadConfig constants_;
  std::map<std::string, std::shared_ptr<Buffer>> buffers_;  // by path
  std::map<std::string, std::vector<Sharer>> shared_;       // by path
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
