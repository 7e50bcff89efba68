// Names for the leaves of nested Python structures, from the tree specifications in a file:
//   {"logits": …, "past": ((k, v), …)}  →  "logits", "past.0.0", "past.0.1", …
// Field names come from dict keys, named tuples, and the contexts of dataclasses and of Hugging Face outputs.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kpt/status.h"

namespace kpt::pt2 {

// Field names of named tuples by their type's serialized name.
using NamedTupleFields = std::map<std::string, std::vector<std::string>, std::less<>>;

struct TreeNode {
  bool is_leaf = false;
  bool has_field_names = false;    // otherwise the names are positions: "0", "1", …
  std::vector<std::string> names;  // of the children
  std::vector<TreeNode> children;
};

// `text` is the JSON "[1, {"type": …, "context": …, "children_spec": […]}]". Fails with kCorruptData when it is not of
// that form or nested over 64 deep, and with kUnsupported for another version than 1. `place` is for messages.
Result<TreeNode> parse_tree_spec(std::string_view text, const NamedTupleFields& fields, const std::string& place);

// What the names of all inputs, or of all outputs, may take together: a key stands in the name of every leaf below it,
// so that a small file could ask for any amount of memory.
inline constexpr std::size_t kMaxNameBytes = std::size_t{16} << 20;

// Names of the leaves of a result, in order: "output" for a single leaf, "output_0"… for the children of a plain tuple
// or list at the top, field names otherwise; nested names are joined by '.'. Fails with kUnsupported beyond
// kMaxNameBytes.
Result<std::vector<std::string>> name_outputs(const TreeNode& root);

// Names of the leaves of (args, kwargs), in order. `argument_names` are those of forward(); where they are missing a
// positional argument is "arg_0"…. Fails as name_outputs() does.
Result<std::vector<std::string>> name_inputs(const TreeNode& root, const std::vector<std::string>& argument_names);

// Makes equal names different by "_2", "_3", …; the first keeps its name.
void make_unique(std::vector<std::string>* names);

}  // namespace kpt::pt2
