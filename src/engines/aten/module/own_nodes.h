// Nodes that run by kernels of our own: the operators of ir/own_operators.h. A node is bound once from its recorded
// types, prepared once from the model's weights, and then run by many threads at once.
//
// To add one: a class in a file own_<kind>.cpp, its bind function declared at the end of this file, a row in kOwnNodes
// (cpu_own_nodes.cpp; for GPUs cuda/cuda_own_nodes.cpp and rocm/rocm_own_nodes.cpp, which share gpu_own_nodes.h) and in
// the table of engines/aten/own_targets.h.
//
// Files are foreign: what was recorded may be a lie. bind() checks the recorded types so that supports() has a clear
// answer; OwnCall checks type, rank and layout of the real tensors again, and run() every size that its kernel relies
// on.
//
// Results of own nodes share no memory with anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "device/nvidia_policy.h"
#include "ir/graph.h"
#include "ir/own_operators.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kpt/status.h"

namespace kpt::aten {

struct BindingContext;
struct Frame;
struct Step;

// What run() throws; the executor adds the node's name.
class OwnNodeFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A node of the graph whose argument names and number of results fit the operator. Positions are those of
// ir::OwnOperator::arguments. Every failure is kUnsupported with one clause: "its argument 'mask' …".
class OwnBinding {
 public:
  // `policy` must outlive this.
  OwnBinding(const ir::Graph& graph, const ir::Node& node, const ir::OwnOperator& op, const NvidiaPolicy& policy);

  const NvidiaPolicy& policy() const { return policy_; }

  bool is_none(std::size_t position) const;
  // The recorded type; null when the argument is no tensor.
  const ir::TensorType* find_type(std::size_t position) const;
  const ir::TensorType& result_type(std::size_t index) const { return *results_[index]; }
  // Whether the argument is a weight of the model, so that prepare() may see it (unless the graph writes it).
  bool is_weight(std::size_t position) const;

  // A tensor of one of these types with a rank in [least, most].
  Status check_tensor(std::size_t position, std::initializer_list<DType> dtypes, std::size_t least_rank,
                      std::size_t most_rank = kMaxRank) const;
  // Likewise, or None.
  Status check_optional_tensor(std::size_t position, std::initializer_list<DType> dtypes, std::size_t least_rank,
                               std::size_t most_rank = kMaxRank) const;
  // What the file says of a result must be what the kernel makes.
  Status check_result(std::size_t index, DType dtype, std::size_t rank) const;

  // Constants; numbers that the graph computes are refused.
  Result<double> number(std::size_t position) const;
  Result<std::int64_t> integer(std::size_t position) const;
  Result<bool> truth(std::size_t position) const;
  Result<std::string> text(std::size_t position) const;
  Result<ir::Activation> activation(std::size_t position) const;
  Result<std::vector<std::int64_t>> integers(std::size_t position, std::size_t count) const;

  // "its argument 'name' <what>"
  Status refuse(std::size_t position, std::string_view what) const;

 private:
  const ir::Graph& graph_;
  const ir::OwnOperator& op_;
  const NvidiaPolicy& policy_;
  std::vector<const ir::Argument*> arguments_;
  std::vector<const ir::TensorType*> results_;
};

// The model's weights as a node sees them when it prepares.
class OwnWeights {
 public:
  OwnWeights(const Step& step, std::span<const at::Tensor* const> constants) : step_(step), constants_(constants) {}
  // Null when the argument is None, no weight, or a weight that runs may change. It has the recorded type and sizes.
  const at::Tensor* find(std::size_t position) const;

 private:
  const Step& step_;
  std::span<const at::Tensor* const> constants_;  // by slot
};

// One run of a node.
class OwnCall {
 public:
  OwnCall(const Step& step, Frame& frame) : step_(step), frame_(frame) {}

  // Strided, on the graph's device, of the recorded element type and rank; throws OwnNodeFailure otherwise. find_ gives
  // null for None.
  const at::Tensor& tensor(std::size_t position) const;
  const at::Tensor* find_tensor(std::size_t position) const;

  // Whether anybody uses result `index`; one that nobody wants must not be asked for.
  bool wants(std::size_t index) const;
  // Memory for a result of the recorded element type, contiguous or with the given strides: planned where the file told
  // the truth about its size. Throws OwnNodeFailure when `sizes` are not what the file says.
  at::Tensor& result(std::size_t index, at::IntArrayRef sizes, at::IntArrayRef strides = {});

  // Takes a tensor that a library made as result `index`: of these sizes and strides (none: contiguous), sharing memory
  // with nothing else. Copied only where its memory was planned or its layout is another.
  void adopt(std::size_t index, const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides = {});

  // Memory of this run, aligned to 64 bytes, until the node ends; kept for the next runs. One per node: asking again
  // gives the same memory.
  void* workspace(std::size_t bytes);
  // libtorch's threads.
  kernels::Parallel parallel();

  // Throws OwnNodeFailure saying `what` (one clause) unless `holds`.
  static void require(bool holds, const char* what);

 private:
  const Step& step_;
  Frame& frame_;
};

// Immutable after prepare(), except for what a device keeps from run to run.
class OwnNode {
 public:
  OwnNode() = default;
  OwnNode(const OwnNode&) = delete;
  OwnNode& operator=(const OwnNode&) = delete;
  virtual ~OwnNode() = default;

  // The kernel and why it was chosen, for plan(): "attention_neon (float32)".
  virtual std::string describe() const = 0;
  // Once, at load: packs weights. Fails with kUnsupported, one clause, when it cannot do without what is missing.
  // Never called for nodes of sub-graphs, whose weights come as operands: run() must do without.
  virtual Status prepare(const OwnWeights&) { return {}; }
  virtual void run(OwnCall& call) const = 0;
  // Whether the recorded strides of results are kept; else results are contiguous.
  virtual bool keeps_strides() const { return false; }
};

// What a step of kind kOwn has.
struct OwnStep {
  struct Expected {
    at::ScalarType dtype = at::kFloat;
    std::int64_t rank = -1;  // -1: the argument is no tensor
  };
  struct ExpectedResult {
    at::ScalarType dtype = at::kFloat;
    bool wanted = true;
    std::int32_t place = -1;  // of the frame's planned tensors; -1: libtorch allocates it
  };
  std::unique_ptr<OwnNode> node;
  std::vector<Expected> arguments;  // by position
  std::vector<ExpectedResult> results;
};

// Binds a node whose target starts with ir::kOwnPrefix.
Result<Step> bind_own_node(const ir::Graph& graph, const ir::Node& node, BindingContext& context);

// A tensor as kernels see it; its rank is 1 or more and its type one of kernels::is_row_type().
kernels::Rows to_rows(const at::Tensor& tensor);

// Whether the file wants an image [N, C, H, W] channels-last. Channels, height and width are constants almost always;
// where they are not, the channels' stride decides, and a run whose result does not fit fails. kUnsupported when it is
// neither that nor contiguous.
Result<bool> find_channels_last(const ir::TensorType& type);

// A row of a module's table: which of our operators it has kernels for.
struct OwnNodeEntry {
  std::string_view target;
  Result<std::unique_ptr<OwnNode>> (*bind)(const OwnBinding& binding);
};
// The module's own: cpu_own_nodes.cpp, cuda/cuda_own_nodes.cpp or rocm/rocm_own_nodes.cpp.
std::span<const OwnNodeEntry> own_node_table() noexcept;

Result<std::unique_ptr<OwnNode>> bind_add_norm(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_attention(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_conv2d(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_conv2d_int8(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_glu(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_linear(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_linear_int4(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_linear_int8(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_linear_weight_int8(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_rotary(const OwnBinding& binding);

}  // namespace kpt::aten
