#include "tensor_files/torch_pickle.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "archive/zip.h"
#include "base/text.h"
#include "tensor_files/pickle_machine.h"
#include "tensor_files/tensor_bytes.h"

namespace kpt {
namespace {

constexpr std::size_t kMaxPickleBytes = 256U << 20U;
constexpr std::size_t kMaxDepth = 100;
constexpr std::size_t kMaxValues = 4'000'000;
constexpr std::size_t kMaxTextBytes = 512U << 20U;
constexpr std::string_view kPickleName = "data.pkl";

// Turns the machine's table into a tree. Values that several places share are copied, so both the number of values and
// the bytes of text are counted: a short pickle can describe an exponentially large tree.
class TreeBuilder {
 public:
  TreeBuilder(const PickleMachine& machine, const std::string& name) : machine_(machine), name_(name) {}

  Result<PickleValue> build(PickleNodeId id, std::size_t depth);

 private:
  Status too_large(std::string_view what) const {
    return {StatusCode::kUnsupported, fmt::format("{} holds {}", name_, what)};
  }
  Result<std::vector<PickleValue>> build_all(const std::vector<PickleNodeId>& ids, std::size_t depth);
  Result<PickleValue> build_dict(const std::vector<PickleNodeId>& pairs, std::size_t depth);

  const PickleMachine& machine_;
  const std::string& name_;
  std::size_t values_ = 0;
  std::size_t text_bytes_ = 0;
};

Result<std::vector<PickleValue>> TreeBuilder::build_all(const std::vector<PickleNodeId>& ids, std::size_t depth) {
  std::vector<PickleValue> values;
  for (const PickleNodeId id : ids) {
    KPT_ASSIGN_OR_RETURN(PickleValue value, build(id, depth + 1));
    values.push_back(std::move(value));
  }
  return values;
}

// Python keeps the place of a key that is set again and takes the later value. Only texts and integers are compared:
// other keys that are equal would both stay, which no writer produces.
Result<PickleValue> TreeBuilder::build_dict(const std::vector<PickleNodeId>& pairs, std::size_t depth) {
  PickleValue::Dict dict;
  std::unordered_map<std::string, std::size_t> texts;
  std::unordered_map<std::int64_t, std::size_t> integers;
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    KPT_ASSIGN_OR_RETURN(PickleValue key, build(pairs[i], depth + 1));
    KPT_ASSIGN_OR_RETURN(PickleValue value, build(pairs[i + 1], depth + 1));
    std::size_t place = dict.keys.size();
    if (const auto* text = key.get<std::string>()) place = texts.emplace(*text, place).first->second;
    if (const auto* number = key.get<std::int64_t>()) place = integers.emplace(*number, place).first->second;
    if (place < dict.keys.size()) {
      dict.values[place] = std::move(value);
    } else {
      dict.keys.push_back(std::move(key));
      dict.values.push_back(std::move(value));
    }
  }
  return PickleValue{std::move(dict)};
}

Result<PickleValue> TreeBuilder::build(PickleNodeId id, std::size_t depth) {
  if (depth > kMaxDepth) return too_large(fmt::format("values nested deeper than {}, or in a circle", kMaxDepth));
  if (++values_ > kMaxValues) return too_large(fmt::format("more than {} values", kMaxValues));
  const auto& node = machine_.node(id).value;
  if (const auto* list = std::get_if<PickleNode::List>(&node)) {
    KPT_ASSIGN_OR_RETURN(std::vector<PickleValue> items, build_all(list->items, depth));
    return PickleValue{PickleValue::List{std::move(items)}};
  }
  if (const auto* tuple = std::get_if<PickleNode::Tuple>(&node)) {
    KPT_ASSIGN_OR_RETURN(std::vector<PickleValue> items, build_all(tuple->items, depth));
    return PickleValue{PickleValue::Tuple{std::move(items)}};
  }
  if (const auto* dict = std::get_if<PickleNode::Dict>(&node)) return build_dict(dict->pairs, depth);
  if (const auto* text = std::get_if<std::string>(&node)) {
    text_bytes_ += text->size();
    if (text_bytes_ > kMaxTextBytes) return too_large(fmt::format("more than {} of text", format_bytes(kMaxTextBytes)));
    return PickleValue{*text};
  }
  if (const auto* value = std::get_if<bool>(&node)) return PickleValue{*value};
  if (const auto* value = std::get_if<std::int64_t>(&node)) return PickleValue{*value};
  if (const auto* value = std::get_if<double>(&node)) return PickleValue{*value};
  if (const auto* value = std::get_if<Tensor>(&node)) return PickleValue{*value};
  if (const auto* value = std::get_if<DType>(&node)) return PickleValue{*value};
  if (const auto* value = std::get_if<PickleDevice>(&node)) return PickleValue{*value};
  if (std::holds_alternative<PickleValue::None>(node)) return PickleValue{PickleValue::None{}};
  return too_large("a bare storage, class or function, which has no value here");
}

// "archive/data.pkl" → "archive/". PyTorch names the folder after the file.
Result<std::string> find_root(const ZipArchive& archive) {
  for (const ZipEntry& entry : archive.entries()) {
    const std::size_t slash = entry.name.find('/');
    if (slash == std::string::npos || entry.name.substr(slash + 1) != kPickleName) continue;
    return entry.name.substr(0, slash + 1);
  }
  return Status(StatusCode::kCorruptData,
                fmt::format("{} is a zip archive without data.pkl, so torch.save() did not write it", archive.name()));
}

Status check_byte_order(const ZipArchive& archive, const std::string& root) {
  const ZipEntry* entry = archive.find(root + "byteorder");
  if (entry == nullptr) return {};  // PyTorch before 2.1 wrote little endian and did not say so
  KPT_ASSIGN_OR_RETURN(const std::string order, archive.read(*entry, 100));
  if (order == "little") return {};
  return {StatusCode::kUnsupported, fmt::format("{} was written on a big-endian machine", archive.name())};
}

}  // namespace

const PickleValue* PickleValue::find(std::string_view key) const {
  const auto* dict = get<Dict>();
  if (dict == nullptr) return nullptr;
  for (std::size_t i = 0; i < dict->keys.size(); ++i) {
    const auto* text = dict->keys[i].get<std::string>();
    if (text != nullptr && *text == key) return &dict->values[i];
  }
  return nullptr;
}

std::span<const PickleValue> PickleValue::items() const {
  if (const auto* list = get<List>()) return list->items;
  if (const auto* tuple = get<Tuple>()) return tuple->items;
  return {};
}

std::string_view PickleValue::kind() const {
  constexpr std::string_view kKinds[] = {"None",    "a bool", "an int",   "a float", "a str",   "a list",
                                         "a tuple", "a dict", "a tensor", "a dtype", "a device"};
  return kKinds[value.index()];
}

Result<PickleValue> read_torch_pickle(std::span<const std::byte> bytes, std::string name,
                                      std::shared_ptr<const MappedFile> file) {
  if (bytes.size() >= 2 && bytes[0] == std::byte{0x80}) {
    return Status(
        StatusCode::kUnsupported,
        fmt::format("{} is a bare pickle, as PyTorch wrote before 1.6; save it anew with torch.save()", name));
  }
  KPT_ASSIGN_OR_RETURN(const ZipArchive archive, ZipArchive::from_bytes(bytes, std::move(name)));
  KPT_ASSIGN_OR_RETURN(const std::string root, find_root(archive));
  KPT_RETURN_IF_ERROR(check_byte_order(archive, root));
  KPT_ASSIGN_OR_RETURN(const std::string pickle,
                       archive.read(*archive.find(root + std::string(kPickleName)), kMaxPickleBytes));
  const auto load = [&](const std::string& key) -> Result<std::shared_ptr<Buffer>> {
    const ZipEntry* entry = archive.find(root + "data/" + key);
    if (entry == nullptr) {
      return Status(StatusCode::kCorruptData, fmt::format("{} has no storage {}", archive.name(), printable(key, 40)));
    }
    KPT_ASSIGN_OR_RETURN(const std::span<const std::byte> content, archive.view(*entry));
    constexpr std::size_t kWidestElement = 8;  // complex128 is two of them
    return share_or_copy(file, content, kWidestElement);
  };
  PickleMachine machine(pickle, archive.name(), load);
  KPT_ASSIGN_OR_RETURN(const PickleNodeId result, machine.run());
  return TreeBuilder(machine, archive.name()).build(result, 0);
}

}  // namespace kpt
