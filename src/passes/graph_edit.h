// Rewriting a graph: who makes and who uses a value, and the few edits that passes are made of.
//
// While a GraphEdit lives, nodes keep their indices: inserted ones get fresh indices at the end, erased ones stay as
// dead entries. finish() (or the destructor) puts the list in order. Nobody else may change the graph meanwhile.
//
// The usual shape of a fusion: match backwards from the last node, put the fused call in its place with replace_call(),
// and let erase_unused() take away what fed it. The fused node stands where the last one stood, so all its arguments
// are there; that it reads them later than before is checked with may_read_at().
#pragma once

#include <cstddef>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "device/weights.h"
#include "ir/graph.h"
#include "passes/memory_facts.h"

namespace kpt {

using NodeIndex = std::size_t;
inline constexpr NodeIndex kNoNode = std::numeric_limits<NodeIndex>::max();

class GraphEdit {
 public:
  GraphEdit(ir::Graph& graph, Weights& weights);
  GraphEdit(const GraphEdit&) = delete;
  GraphEdit& operator=(const GraphEdit&) = delete;
  ~GraphEdit() { finish(); }

  const ir::Graph& graph() const { return graph_; }
  const MemoryFacts& facts() const { return facts_; }
  std::size_t size() const { return graph_.nodes.size(); }
  bool is_alive(NodeIndex index) const { return alive_[index]; }
  // Not kept over an insertion: indices are.
  const ir::Node& node(NodeIndex index) const { return graph_.nodes[index]; }
  // Files may have calls with other results than their operator's, so all that is asked about values may be asked of
  // kNoValue, too: it has no type to speak of, no users, and nothing takes its place.
  const ir::TensorType& type(ir::ValueId id) const { return id == ir::kNoValue ? no_type_ : graph_.at(id).tensor; }
  bool is_tensor(ir::ValueId id) const { return id != ir::kNoValue && graph_.at(id).kind == ir::ValueKind::kTensor; }

  // kNoNode for inputs of the graph.
  NodeIndex producer(ir::ValueId id) const;
  // The producer if its target is one of these and the value is what it made, otherwise null: memory that it made and
  // somebody writes holds something else.
  const ir::Node* made_by(ir::ValueId id, std::initializer_list<std::string_view> targets) const;
  // One entry per use by a node.
  const std::vector<NodeIndex>& users(ir::ValueId id) const {
    return id == ir::kNoValue ? nobody_ : users_[ir::index_of(id)];
  }
  bool is_output(ir::ValueId id) const { return id != ir::kNoValue && output_uses_[ir::index_of(id)] > 0; }
  // Used once, by a node.
  bool has_one_use(ir::ValueId id) const { return users(id).size() == 1 && !is_output(id); }
  // The node that is the value's only use, otherwise kNoNode.
  NodeIndex only_user(ir::ValueId id) const { return has_one_use(id) ? users(id)[0] : kNoNode; }

  // A constant weight (see ConstantWeights), or null.
  const Tensor* constant(ir::ValueId id) const;
  // The number of a constant weight of one element, or that of which a factory makes a tensor.
  std::optional<double> constant_number(ir::ValueId id) const;

  // Whether what `reader` reads of the value may be read at `place` instead: nobody writes its memory between them.
  bool may_read_at(ir::ValueId id, NodeIndex reader, NodeIndex place) const;

  // Edits.
  std::string fresh_name(const std::string& wanted);
  ir::ValueId add_value(const std::string& name, ir::TensorType type);
  // A graph input of the kind kConstant with its entry in the weights.
  ir::ValueId add_weight(const std::string& name, Tensor tensor);
  // In front of `before`, behind what was inserted there already. The outputs must be values without a producer.
  NodeIndex insert_before(NodeIndex before, ir::Node node);
  // Behind `after`, in front of all that stands there.
  NodeIndex insert_behind(NodeIndex after, ir::Node node);
  // Another call with the same results.
  void replace_call(NodeIndex index, std::string target, std::vector<ir::NamedArgument> arguments);
  void replace_argument(NodeIndex index, std::string_view name, const ir::Argument& argument);
  // In nodes and outputs of the graph.
  void replace_uses(ir::ValueId from, ir::ValueId to);
  // Only in one node, only in outputs of the graph.
  void replace_uses_in(NodeIndex user, ir::ValueId from, ir::ValueId to);
  void replace_outputs(ir::ValueId from, ir::ValueId to);
  // Two nodes and their first results change names: for a node that goes on as what the other was. Values of a model
  // and of its optimized form correspond by name.
  void swap_names(NodeIndex a, NodeIndex b);
  void set_type(ir::ValueId id, ir::TensorType type) {
    if (id != ir::kNoValue) graph_.at(id).tensor = std::move(type);
  }
  // The node, if nobody uses its results and it is removable, and then likewise what made its arguments.
  void erase_unused(NodeIndex index);
  void finish();

 private:
  void add_uses(NodeIndex index);
  void remove_uses(NodeIndex index);
  std::size_t position(NodeIndex index) const { return anchors_[index]; }

  const ir::TensorType no_type_;
  const std::vector<NodeIndex> nobody_;
  ir::Graph& graph_;
  Weights& weights_;
  MemoryFacts facts_;
  ConstantWeights constants_;
  std::map<std::uint32_t, Tensor> added_constants_;
  std::vector<bool> alive_;
  std::vector<std::size_t> anchors_;  // the original node in front of which it stands, or itself
  std::vector<NodeIndex> producers_;  // by value
  std::vector<std::vector<NodeIndex>> users_;
  std::vector<std::size_t> output_uses_;
  std::unordered_set<std::string> names_;
  std::size_t original_size_;
  bool finished_ = false;
};

// Types. Extents are compared as expressions: equal expressions are equal for all sizes.
ir::TensorType contiguous_type(DType dtype, std::vector<ir::Expr> dims);
bool is_contiguous(const ir::TensorType& type);
std::optional<std::int64_t> constant_dim(const ir::TensorType& type, std::size_t axis);
// -1, which no extent is, where there are no dimensions.
ir::Expr last_dim(const ir::TensorType& type);
// With the same name, arguments and results beside.
ir::Node make_node(const std::string& name, std::string target, std::vector<ir::NamedArgument> arguments,
                   ir::ValueId result);

// Takes out, in place: nodes that nobody needs, weights that no node reads, values that nothing defines; values are
// numbered in the order of their definitions afterwards. Returns how many nodes went.
std::size_t remove_unused(ir::Graph& graph, Weights& weights);

}  // namespace kpt
