#include "engines/aten/module/typed_nodes.h"

#include <string_view>

#include <ATen/ops/_softmax_ops.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/mm_ops.h>

#include "engines/aten/module/frame.h"
#include "engines/aten/module/guarded_call.h"

namespace kpt::aten {
namespace {

DType value_dtype(const ir::Graph& graph, const ArgumentSource& source) {
  return graph.values[source.slot].tensor.dtype;
}

bool is_slot(const ArgumentSource& source) { return source.kind == ArgumentSource::Kind::kSlot; }

bool is_none(const ArgumentSource& source) {
  return source.is_constant() &&
         (source.constant.isNone() || (source.constant.isTensor() && !source.constant.toTensor().defined()));
}

// A view kept from run to run. What libtorch allocates lies elsewhere each time: the view is then moved, which
// allocates nothing.
const at::Tensor& keep_view(at::Tensor& cached, const at::Tensor& source, std::int64_t rows, std::int64_t columns) {
  const bool fits = cached.defined() && cached.scalar_type() == source.scalar_type() && cached.size(0) == rows &&
                    cached.size(1) == columns;
  // An alias of the storage would keep memory alive that libtorch allocated for this run only, so the view is made of
  // the bare address: it is used within this step.
  if (!fits) {
    cached = at::from_blob(source.data_ptr(), {rows, columns}, source.options());
  } else if (cached.const_data_ptr() != source.const_data_ptr()) {
    cached.storage().set_data_ptr_noswap(c10::DataPtr(source.data_ptr(), source.device()));
  }
  return cached;
}

// The recorded shape of a result is the file's word; what the operator really gives decides.
void copy_result(const at::Tensor& result, at::Tensor& out) {
  if (result.sizes() != out.sizes()) {
    throw CallFailure(CallCode::kFailed, "the result has another shape than the file says");
  }
  out.copy_(result);
}

// linear(input, weight, bias): libtorch's own path is a view to two dimensions, addmm, and a view back.
void run_linear(const Step& step, Frame& frame) {
  const at::Tensor& input = tensor_at(step.arguments[0], frame);
  const at::Tensor& weight = tensor_at(step.arguments[1], frame);
  at::Tensor& out = frame.planned[static_cast<std::size_t>(step.planned)];
  const at::Tensor bias = is_none(step.arguments[2]) ? at::Tensor() : tensor_at(step.arguments[2], frame);
  const std::int64_t columns = input.dim() > 0 ? input.size(-1) : 0;
  const std::int64_t rows = columns == 0 ? 0 : input.numel() / columns;
  const std::int64_t width = weight.dim() == 2 ? weight.size(0) : 0;
  const bool plain = rows > 0 && width > 0 && weight.size(1) == columns && input.is_contiguous() &&
                     weight.is_contiguous() && out.is_contiguous() && out.dim() == input.dim() &&
                     out.numel() == rows * width && out.size(-1) == width && (!bias.defined() || bias.dim() == 1);
  if (!plain) {
    copy_result(at::linear(input, weight, bias), out);
    frame.slots[step.result()] = out;
    return;
  }
  // Three cached views: input, transposed weight, output.
  at::Tensor* views = &frame.views[std::size_t{3} * step.scratch];
  const at::Tensor& flat_input = keep_view(views[0], input, rows, columns);
  const bool same_weight = views[1].defined() && views[1].const_data_ptr() == weight.const_data_ptr() &&
                           views[1].scalar_type() == weight.scalar_type() && views[1].size(0) == columns &&
                           views[1].size(1) == width;
  if (!same_weight) views[1] = at::from_blob(weight.data_ptr(), {columns, width}, {1, columns}, weight.options());
  at::Tensor& flat_out = const_cast<at::Tensor&>(keep_view(views[2], out, rows, width));
  if (bias.defined()) {
    at::_ops::addmm_out::call(bias, flat_input, views[1], 1, 1, flat_out);
  } else {
    at::_ops::mm_out::call(flat_input, views[1], flat_out);
  }
  frame.slots[step.result()] = out;
}

// softmax.int(self, dim, dtype), where the type does not change.
void run_softmax(const Step& step, Frame& frame) {
  at::Tensor& out = frame.planned[static_cast<std::size_t>(step.planned)];
  at::_ops::_softmax_out::call(tensor_at(step.arguments[0], frame), step.arguments[1].constant.toInt(), false, out);
  frame.slots[step.result()] = out;
}

// to.dtype, _to_copy, clone and contiguous, where they have to copy.
void run_copy(const Step& step, Frame& frame) {
  at::Tensor& out = frame.planned[static_cast<std::size_t>(step.planned)];
  copy_result(tensor_at(step.arguments[0], frame), out);
  frame.slots[step.result()] = out;
}

bool linear_fits(const ir::Graph&, const Step& step) {
  return is_slot(step.arguments[0]) && is_slot(step.arguments[1]) &&
         (is_none(step.arguments[2]) || is_slot(step.arguments[2]));
}

bool softmax_fits(const ir::Graph& graph, const Step& step) {
  if (!is_slot(step.arguments[0]) || !step.arguments[1].is_constant()) return false;
  return value_dtype(graph, step.arguments[0]) == graph.values[step.result()].tensor.dtype;
}

// A copy unless the operator may hand back its argument.
bool conversion_fits(const ir::Graph& graph, const Step& step) {
  return is_slot(step.arguments[0]) &&
         value_dtype(graph, step.arguments[0]) != graph.values[step.result()].tensor.dtype;
}

bool copy_fits(const ir::Graph&, const Step& step) { return is_slot(step.arguments[0]); }

bool contiguous_fits(const ir::Graph& graph, const Step& step) {
  return is_slot(step.arguments[0]) &&
         graph.values[step.arguments[0].slot].tensor.strides != graph.values[step.result()].tensor.strides;
}

struct TypedEntry {
  std::string_view target;
  bool (*fits)(const ir::Graph& graph, const Step& step);
  TypedFunction run;
};

constexpr TypedEntry kTyped[] = {
    {"aten.linear.default", linear_fits, run_linear},       {"aten.softmax.int", softmax_fits, run_softmax},
    {"aten.to.dtype", conversion_fits, run_copy},           {"aten.to.dtype_layout", conversion_fits, run_copy},
    {"aten._to_copy.default", conversion_fits, run_copy},   {"aten.clone.default", copy_fits, run_copy},
    {"aten.contiguous.default", contiguous_fits, run_copy},
};

}  // namespace

TypedFunction find_typed_function(const ir::Graph& graph, const Step& step) {
  for (const TypedEntry& entry : kTyped) {
    if (entry.target == graph.nodes[step.node].target && entry.fits(graph, step)) return entry.run;
  }
  return nullptr;
}

}  // namespace kpt::aten
