// Padding: positions of a batch of sequences that an attention mask leaves out. What a model gives there is seen by
// nobody, and two right implementations may differ there at will (a row that may look nowhere is NaN in one, zero in
// the other). So the gate must know them, and must not take anything else for them.
//
// A name is no proof. An output counts as padded only when a run of the model itself shows both: other content at the
// positions that the mask leaves out changes the output at those positions, and at no other. A mask with another
// meaning (global attention, masked patches) and an output whose sizes agree by chance (128 features, 128 tokens) fail
// one of the two.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "kpt/status.h"
#include "kpt/tensor.h"
#include "validation/model_run.h"

namespace kpt {

struct Padding {
  std::string mask;                  // name of the input
  std::vector<std::string> outputs;  // whose padded positions do not count
  bool covers(const std::string& output) const;
};

// The input 'attention_mask' of rank 2 that the graph uses as a mask (runtime/input_roles.h).
std::optional<std::string> find_attention_mask(const ir::Graph& graph);

// One truth per position of a mask [batch, sequence]: whether it is kept. Fails with kInvalidArgument for another rank.
Result<std::vector<bool>> kept_positions(const Tensor& mask);

// The rows of tensor [batch, sequence, …] whose position is `wanted`, as [rows, …]. Fails with kInvalidArgument when
// the tensor does not have that many positions.
Result<Tensor> take_positions(const Tensor& tensor, const std::vector<bool>& kept, bool wanted);

// Whether the first two extents are the mask's.
bool has_positions_of(const Tensor& tensor, const Tensor& mask);

// Runs `model` once more, with other content at the padded positions of `inputs`; `outputs` is what it gave before.
// Nothing where the inputs have no padding, hold nothing that can be changed there, the model cannot run with it, or no
// output is proved padded. Not for models that write buffers.
Result<std::optional<Padding>> find_padding(ModelRun& model, const std::string& mask,
                                            const std::vector<NamedTensor>& inputs,
                                            const std::vector<NamedTensor>& outputs);

}  // namespace kpt
