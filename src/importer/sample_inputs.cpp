#include "importer/sample_inputs.h"

#include <algorithm>
#include <span>
#include <utility>

#include "tensor_files/torch_pickle.h"

namespace kpt::pt2 {
namespace {

struct Leaf {
  std::string path;  // below the argument: "0", "past.0.key"
  const PickleValue* value = nullptr;
};

std::string join_path(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

// The reader bounds the depth.
void flatten(const PickleValue& value, const std::string& path, std::vector<Leaf>* leaves) {
  if (const auto* dict = value.get<PickleValue::Dict>()) {
    for (std::size_t i = 0; i < dict->keys.size(); ++i) {
      const auto* text = dict->keys[i].get<std::string>();
      const auto* number = dict->keys[i].get<std::int64_t>();
      const std::string key = text != nullptr ? *text : number != nullptr ? std::to_string(*number) : std::to_string(i);
      flatten(dict->values[i], join_path(path, key), leaves);
    }
  } else if (value.get<PickleValue::List>() != nullptr || value.get<PickleValue::Tuple>() != nullptr) {
    const std::span<const PickleValue> items = value.items();
    for (std::size_t i = 0; i < items.size(); ++i) flatten(items[i], join_path(path, std::to_string(i)), leaves);
  } else {
    leaves->push_back({path, &value});
  }
}

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
  // Positional arguments come first and in order; the order of keyword arguments is the caller's, so they go by name.
  std::vector<Leaf> positional;
  std::vector<Leaf> keyword;
  flatten(value->items()[0], "", &positional);
  flatten(value->items()[1], "", &keyword);
  if (positional.size() + keyword.size() != names.size()) {
    notes->emplace_back("the sample inputs are ignored: they are not as many as the model's inputs");
    return {};
  }
  std::vector<NamedTensor> tensors;
  const auto add = [&](const std::string& name, const PickleValue& leaf) {
    if (const Tensor* tensor = leaf.get<Tensor>()) tensors.push_back({name, *tensor});
  };
  for (std::size_t i = 0; i < positional.size(); ++i) add(names[i], *positional[i].value);
  for (const Leaf& leaf : keyword) {
    if (std::find(names.begin(), names.end(), leaf.path) != names.end()) add(leaf.path, *leaf.value);
  }
  return tensors;
}

}  // namespace kpt::pt2
