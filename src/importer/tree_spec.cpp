#include "importer/tree_spec.h"

#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "archive/json_reader.h"

namespace kpt::pt2 {
namespace {

constexpr int kMaxTreeDepth = 64;

using Kind = JsonReader::Kind;

// Reads a list of keys: strings, or numbers and truth values as text. Nothing but skipped for other elements.
Status read_keys(JsonReader* reader, std::vector<std::string>* keys, bool* usable) {
  *usable = true;
  keys->clear();
  return reader->array([&]() -> Status {
    switch (reader->peek()) {
      case Kind::kString: return reader->string(&keys->emplace_back());
      case Kind::kNumber: {
        std::int64_t number = 0;
        KPT_RETURN_IF_ERROR(reader->integer(&number));
        keys->push_back(std::to_string(number));
        return {};
      }
      default: *usable = false; return reader->skip();
    }
  });
}

// The names that a context holds: ["a", "b"], or [["a", "b"], ["absent"]] of a dataclass. Empty when it is none of
// these.
std::vector<std::string> names_in_context(JsonReader* reader, std::size_t count) {
  std::vector<std::string> keys;
  bool usable = false;
  if (reader->peek() != Kind::kArray) return {};
  const std::size_t start = reader->offset();
  if (!read_keys(reader, &keys, &usable).ok()) return {};
  if (usable && keys.size() == count) return keys;
  std::vector<std::string> found;
  bool first = true;
  reader->seek(start);
  const Status status = reader->array([&]() -> Status {
    if (!std::exchange(first, false) || reader->peek() != Kind::kArray) return reader->skip();
    KPT_RETURN_IF_ERROR(read_keys(reader, &keys, &usable));
    if (usable && keys.size() == count) found = keys;
    return {};
  });
  return status.ok() ? found : std::vector<std::string>();
}

class TreeSpecParser {
 public:
  TreeSpecParser(std::string_view text, const NamedTupleFields& fields, const std::string& place)
      : reader_(text, place), fields_(fields), place_(place) {}

  Result<TreeNode> parse() {
    TreeNode root;
    std::int64_t version = 0;
    int position = 0;
    KPT_RETURN_IF_ERROR(reader_.array([&]() -> Status {
      switch (position++) {
        case 0: return reader_.integer(&version);
        case 1: return version == 1 ? node(&root, 0) : reader_.skip();
        default: return reader_.error("a tree specification of over two parts");
      }
    }));
    KPT_RETURN_IF_ERROR(reader_.finish());
    if (position < 2) return reader_.error("a tree specification of under two parts");
    if (version != 1) {
      return Status(StatusCode::kUnsupported,
                    place_ + ": tree specifications of version " + std::to_string(version) + " are not supported");
    }
    return root;
  }

 private:
  Status node(TreeNode* result, int depth) {
    if (depth > kMaxTreeDepth) return reader_.error("a tree specification nested too deeply");
    bool has_type = false;
    std::string type;
    std::size_t context = 0;
    KPT_RETURN_IF_ERROR(reader_.object([&](std::string_view key) -> Status {
      if (key == "type") {
        has_type = reader_.peek() == Kind::kString;
        return has_type ? reader_.string(&type) : reader_.null();
      }
      if (key == "context") {
        (void)reader_.peek();
        context = reader_.offset();
        return reader_.skip();
      }
      if (key != "children_spec") return reader_.skip();
      return reader_.array([&] { return node(&result->children.emplace_back(), depth + 1); });
    }));
    result->is_leaf = !has_type;
    if (result->is_leaf && !result->children.empty()) return reader_.error("a leaf with children");
    result->names = find_names(type, context, result->children.size());
    result->has_field_names = !result->names.empty();
    for (std::size_t i = result->names.size(); i < result->children.size(); ++i) {
      result->names.push_back(std::to_string(i));
    }
    return {};
  }

  // As many names as children, or none.
  std::vector<std::string> find_names(const std::string& type, std::size_t context, std::size_t count) {
    if (count == 0 || context == 0) return {};
    const std::size_t end = reader_.offset();
    reader_.seek(context);
    std::vector<std::string> names;
    if (reader_.peek() == Kind::kString) {
      std::string text;
      if (reader_.string(&text).ok()) names = names_in_text(type, text, count);
    } else if (reader_.peek() == Kind::kObject) {  // of a defaultdict
      JsonReader inner = reader_;
      (void)inner.object([&](std::string_view key) -> Status {
        if (key != "dict_context") return inner.skip();
        JsonReader keys = inner;
        names = names_in_context(&keys, count);
        return inner.skip();
      });
    }
    reader_.seek(end);
    return names;
  }

  std::vector<std::string> names_in_text(const std::string& type, const std::string& text, std::size_t count) const {
    if (type == "collections.namedtuple") {
      const auto found = fields_.find(text);
      return found != fields_.end() && found->second.size() == count ? found->second : std::vector<std::string>();
    }
    JsonReader reader(text, place_);
    return names_in_context(&reader, count);
  }

  JsonReader reader_;
  const NamedTupleFields& fields_;
  std::string place_;
};

// One path grows and shrinks along the way, so that only the names themselves take memory.
class LeafNames {
 public:
  void add(const TreeNode& node, std::string_view name) {
    const std::size_t length = path_.size();
    if (!path_.empty()) path_ += '.';
    path_ += name;
    if (node.is_leaf) {
      bytes_ += path_.size();
      if (bytes_ <= kMaxNameBytes) names_.push_back(path_);
    }
    for (std::size_t i = 0; i < node.children.size(); ++i) add(node.children[i], node.names[i]);
    path_.resize(length);
  }

  Result<std::vector<std::string>> take(const char* what) {
    if (bytes_ > kMaxNameBytes) {
      return Status(StatusCode::kUnsupported, std::string("the names of the ") + what + " are longer than " +
                                                  std::to_string(kMaxNameBytes >> 20U) + " MiB together");
    }
    make_unique(&names_);
    return std::move(names_);
  }

 private:
  std::string path_;
  std::size_t bytes_ = 0;
  std::vector<std::string> names_;
};

}  // namespace

Result<TreeNode> parse_tree_spec(std::string_view text, const NamedTupleFields& fields, const std::string& place) {
  return TreeSpecParser(text, fields, place).parse();
}

Result<std::vector<std::string>> name_outputs(const TreeNode& root) {
  LeafNames names;
  if (root.is_leaf) names.add(root, "output");
  for (std::size_t i = 0; i < root.children.size(); ++i) {
    names.add(root.children[i], (root.has_field_names ? "" : "output_") + root.names[i]);
  }
  return names.take("outputs");
}

Result<std::vector<std::string>> name_inputs(const TreeNode& root, const std::vector<std::string>& argument_names) {
  LeafNames names;
  if (root.children.size() != 2) return std::vector<std::string>();
  const TreeNode& positional = root.children[0];
  for (std::size_t i = 0; i < positional.children.size(); ++i) {
    names.add(positional.children[i], i < argument_names.size() ? argument_names[i] : "arg_" + positional.names[i]);
  }
  names.add(root.children[1], "");
  return names.take("inputs");
}

void make_unique(std::vector<std::string>* names) {
  std::unordered_set<std::string> seen;
  std::unordered_map<std::string, int> suffixes;  // those tried last: all below are taken
  for (std::string& name : *names) {
    if (seen.insert(name).second) continue;
    int& suffix = suffixes.try_emplace(name, 1).first->second;
    std::string candidate;
    do candidate = name + "_" + std::to_string(++suffix);
    while (!seen.insert(candidate).second);
    name = std::move(candidate);
  }
}

}  // namespace kpt::pt2
