#include "importer/sample_inputs.h"

#include <functional>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "importer/tree_spec.h"
#include "tensor_files/torch_pickle.h"

namespace kpt::pt2 {
namespace {

// Shows the leaves of a value in order, with their paths below the argument: "0", "past.0.key". One path grows and
// shrinks along the way; nobody keeps it. The reader bounds the depth and the number of values.
class Leaves {
 public:
  using Visit = std::function<void(std::string_view path, const PickleValue& leaf)>;
  explicit Leaves(Visit visit) : visit_(std::move(visit)) {}

  void show(const PickleValue& value) {
    const auto* dict = value.get<PickleValue::Dict>();
    const std::span<const PickleValue> items = value.items();
    if (dict == nullptr && value.get<PickleValue::List>() == nullptr && value.get<PickleValue::Tuple>() == nullptr) {
      visit_(path_, value);
    }
    for (std::size_t i = 0; i < items.size(); ++i) show(std::to_string(i), items[i]);
    for (std::size_t i = 0; dict != nullptr && i < dict->keys.size(); ++i) {
      const auto* text = dict->keys[i].get<std::string>();
      const auto* number = dict->keys[i].get<std::int64_t>();
      const std::string place = std::to_string(number != nullptr ? *number : static_cast<std::int64_t>(i));
      show(text != nullptr ? std::string_view(*text) : place, dict->values[i]);
    }
  }

 private:
  void show(std::string_view name, const PickleValue& value) {
    const std::size_t length = path_.size();
    if (!path_.empty()) path_ += '.';
    path_ += name;
    show(value);
    path_.resize(length);
  }

  Visit visit_;
  std::string path_;
};

Result<PickleValue> read(const ArchiveLayout& layout, const ZipEntry& entry, const std::string& place) {
  if (entry.deflated) return Status(StatusCode::kUnsupported, place + ": compressed");
  KPT_RETURN_IF_ERROR(layout.archive().check(entry));
  KPT_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, layout.archive().view(entry));
  KPT_ASSIGN_OR_RETURN(PickleValue value, read_torch_pickle(bytes, place, layout.archive().file()));
  if (value.items().size() != 2) return Status(StatusCode::kUnsupported, place + ": not a pair of args and kwargs");
  return value;
}

}  // namespace

std::vector<NamedTensor> read_sample_inputs(const ArchiveLayout& layout, const ir::Graph& graph,
                                            std::vector<std::string>* notes) {
  const std::string path = "data/sample_inputs/" + layout.model() + ".pt";
  const ZipEntry* entry = layout.find(path);
  if (entry == nullptr) return {};
  const Result<PickleValue> value = read(layout, *entry, layout.place(path));
  if (!value.ok()) {
    notes->push_back("the sample inputs are ignored: " + value.status().message());
    return {};
  }
  std::vector<std::string> names;
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.kind == ir::InputKind::kUser || input.kind == ir::InputKind::kFixed) names.push_back(input.name);
  }
  std::size_t leaves = 0;
  std::size_t path_bytes = 0;
  const auto count = [&](std::string_view leaf_path, const PickleValue&) {
    ++leaves;
    path_bytes += leaf_path.size();
  };
  Leaves(count).show(*value);
  if (leaves != names.size()) {
    notes->emplace_back("the sample inputs are ignored: they are not as many as the model's inputs");
    return {};
  }
  if (path_bytes > kMaxNameBytes) {
    notes->emplace_back("the sample inputs are ignored: their names are too long");
    return {};
  }
  // Positional arguments come first and in order; the order of keyword arguments is the caller's, so they go by name.
  std::vector<NamedTensor> tensors;
  const auto add = [&](std::string_view name, const PickleValue& leaf) {
    if (const Tensor* tensor = leaf.get<Tensor>()) tensors.push_back({std::string(name), *tensor});
  };
  std::size_t position = 0;
  Leaves([&](std::string_view, const PickleValue& leaf) { add(names[position++], leaf); }).show(value->items()[0]);
  const std::unordered_set<std::string_view> known(names.begin(), names.end());
  const auto add_named = [&](std::string_view name, const PickleValue& leaf) {
    if (known.contains(name)) add(name, leaf);
  };
  Leaves(add_named).show(value->items()[1]);
  return tensors;
}

}  // namespace kpt::pt2
