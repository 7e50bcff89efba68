#include "backends/amd/call_text.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "kernels/gpu/activation.h"
#include "kernels/gpu/attention.h"
#include "kernels/gpu/blind_rows.h"
#include "kernels/gpu/convert.h"
#include "kernels/gpu/elementwise.h"
#include "kernels/gpu/embedding.h"
#include "kernels/gpu/gather.h"
#include "kernels/gpu/matrix.h"
#include "kernels/gpu/norm.h"
#include "kernels/gpu/product.h"
#include "kernels/gpu/reduce.h"
#include "kernels/gpu/rotary.h"
#include "kernels/gpu/softmax.h"
#include "kernels/gpu/weight_only.h"

namespace kpt {
namespace {

// The keys and values of a call. The first value that is none is kept as the failure, so that reading members needs no
// check for each of them.
class Fields {
 public:
  explicit Fields(std::span<const std::string_view> words) {
    for (const std::string_view word : words) {
      const std::size_t at = word.find('=');
      if (at == std::string_view::npos) {
        fail(word, "is not key=value");
        continue;
      }
      values_.emplace(word.substr(0, at), word.substr(at + 1));
    }
  }

  template <typename T>
  void read(std::string_view key, T*& pointer) {
    const auto text = take(key);
    if (!text) return;
    const auto number = parse_uint(*text, 16);
    if (!number) return fail(key, "is no address");
    pointer = std::bit_cast<T*>(static_cast<std::uintptr_t>(*number));
  }
  void read(std::string_view key, std::int64_t& number) {
    const auto text = take(key);
    if (!text) return;
    const auto value = parse_int(*text);
    if (!value) return fail(key, "is no whole number");
    number = *value;
  }
  void read(std::string_view key, double& number) {
    const auto text = take(key);
    if (!text) return;
    const auto value = parse_double(*text);
    if (!value) return fail(key, "is no number");
    number = *value;
  }
  void read(std::string_view key, float& number) {
    double value = static_cast<double>(number);
    read(key, value);
    number = static_cast<float>(value);
  }
  void read(std::string_view key, bool& flag) {
    std::int64_t number = flag ? 1 : 0;
    read(key, number);
    flag = number != 0;
  }
  void read(std::string_view key, DType& dtype) {
    const auto text = take(key);
    if (!text) return;
    const auto value = find_dtype(*text);
    if (!value) return fail(key, "is no type");
    dtype = *value;
  }
  void read(std::string_view key, gpu::NormKind& kind) {
    bool rms = kind == gpu::NormKind::kRms;
    read(key, rms);
    kind = rms ? gpu::NormKind::kRms : gpu::NormKind::kLayer;
  }
  // Plans refuse what is no enumerator.
  template <typename Enum>
    requires std::is_same_v<Enum, gpu::Activation> || std::is_same_v<Enum, gpu::ElementOp> ||
             std::is_same_v<Enum, gpu::ReduceOp>
  void read(std::string_view key, Enum& choice) {
    auto number = static_cast<std::int64_t>(choice);
    read(key, number);
    choice = static_cast<Enum>(number);
  }
  // As many as there are; none is "key=".
  void read(std::string_view key, std::vector<std::int64_t>& numbers) {
    const auto text = take(key);
    if (!text || text->empty()) return;
    const auto values = parse_list(*text);
    if (!values) return fail(key, "is no list of whole numbers");
    numbers = *values;
  }
  void read(std::string_view key, std::array<std::int64_t, 3>& numbers) {
    const auto text = take(key);
    if (!text) return;
    const auto values = parse_list(*text);
    if (!values || values->size() != numbers.size()) return fail(key, "is not three numbers");
    std::ranges::copy(*values, numbers.begin());
  }

  bool has(std::string_view key) const { return values_.contains(key); }
  void fail(std::string_view key, std::string_view what) {
    if (status_.ok()) status_ = {StatusCode::kInvalidArgument, fmt::format("'{}' {}", printable(key, 64), what)};
  }

  Status status() const {
    if (!status_.ok() || values_.empty()) return status_;
    return {StatusCode::kInvalidArgument, fmt::format("'{}' is no key of the call", printable(values_.begin()->first))};
  }

 private:
  static std::optional<std::vector<std::int64_t>> parse_list(std::string_view text) {
    std::vector<std::int64_t> numbers;
    for (const std::string_view part : split(text, ',')) {
      const auto value = parse_int(part);
      if (!value) return std::nullopt;
      numbers.push_back(*value);
    }
    return numbers;
  }
  std::optional<std::string_view> take(std::string_view key) {
    const auto found = values_.find(key);
    if (found == values_.end()) return std::nullopt;
    const std::string_view value = found->second;
    values_.erase(found);
    return value;
  }

  std::map<std::string_view, std::string_view> values_;
  Status status_;
};

#define KPT_FIELD(member) fields.read(#member, call.member)

Result<CallText> finish(const Fields& fields, const Result<gpu::Plan>& plan) {
  KPT_RETURN_IF_ERROR(fields.status());
  KPT_RETURN_IF_ERROR(plan.status());
  return CallText{*plan, 0};
}

// Of a call that has a workspace.
template <typename Call>
Result<CallText> finish_with_workspace(Fields& fields, const Call& call, const gpu::DeviceShape& device,
                                       std::size_t (*workspace)(const Call&, const gpu::DeviceShape&),
                                       Result<gpu::Plan> (*make_plan)(const Call&, const gpu::DeviceShape&)) {
  bool workspace_only = false;
  fields.read("workspace_only", workspace_only);
  KPT_RETURN_IF_ERROR(fields.status());
  const std::size_t bytes = workspace(call, device);
  if (workspace_only) return CallText{{}, bytes};
  KPT_ASSIGN_OR_RETURN(gpu::Plan plan, make_plan(call, device));
  return CallText{std::move(plan), bytes};
}

Result<CallText> norm(Fields& fields, const gpu::DeviceShape& device) {
  gpu::NormCall call;
  KPT_FIELD(dtype), KPT_FIELD(kind), KPT_FIELD(input), KPT_FIELD(residual), KPT_FIELD(weight), KPT_FIELD(bias);
  KPT_FIELD(weight_dtype), KPT_FIELD(bias_dtype), KPT_FIELD(normed), KPT_FIELD(sum), KPT_FIELD(mean), KPT_FIELD(scale);
  KPT_FIELD(rows), KPT_FIELD(width), KPT_FIELD(input_stride), KPT_FIELD(residual_stride), KPT_FIELD(epsilon);
  return finish(fields, gpu::plan_norm(call, device));
}

Result<CallText> norm_backward(Fields& fields, const gpu::DeviceShape& device) {
  gpu::NormBackwardCall call;
  KPT_FIELD(dtype), KPT_FIELD(kind), KPT_FIELD(gradient), KPT_FIELD(input), KPT_FIELD(weight), KPT_FIELD(weight_dtype);
  KPT_FIELD(mean), KPT_FIELD(scale), KPT_FIELD(sum_gradient), KPT_FIELD(input_gradient), KPT_FIELD(weight_gradient);
  KPT_FIELD(bias_gradient), KPT_FIELD(rows), KPT_FIELD(width), KPT_FIELD(workspace);
  return finish_with_workspace(fields, call, device, gpu::norm_backward_workspace, gpu::plan_norm_backward);
}

Result<CallText> softmax(Fields& fields, const gpu::DeviceShape& device) {
  gpu::SoftmaxCall call;
  KPT_FIELD(dtype), KPT_FIELD(input), KPT_FIELD(output), KPT_FIELD(batches), KPT_FIELD(heads), KPT_FIELD(queries);
  KPT_FIELD(width), KPT_FIELD(input_stride), KPT_FIELD(scale), KPT_FIELD(mask), KPT_FIELD(mask_dtype);
  KPT_FIELD(mask_batch_stride), KPT_FIELD(mask_head_stride), KPT_FIELD(mask_query_stride);
  KPT_FIELD(causal), KPT_FIELD(causal_offset);
  return finish(fields, gpu::plan_softmax(call, device));
}

Result<CallText> rotary(Fields& fields, const gpu::DeviceShape& device) {
  gpu::RotaryCall call;
  KPT_FIELD(dtype), KPT_FIELD(table_dtype), KPT_FIELD(input), KPT_FIELD(cosines), KPT_FIELD(sines), KPT_FIELD(result);
  KPT_FIELD(sizes), KPT_FIELD(width), KPT_FIELD(input_strides), KPT_FIELD(cosine_strides), KPT_FIELD(sine_strides);
  KPT_FIELD(interleaved), KPT_FIELD(inverse);
  return finish(fields, gpu::plan_rotary(call, device));
}

Result<CallText> gated(Fields& fields, const gpu::DeviceShape& device) {
  gpu::GatedCall call;
  KPT_FIELD(dtype), KPT_FIELD(activation), KPT_FIELD(gate), KPT_FIELD(up), KPT_FIELD(output);
  KPT_FIELD(rows), KPT_FIELD(width), KPT_FIELD(gate_stride), KPT_FIELD(up_stride);
  return finish(fields, gpu::plan_gated(call, device));
}

Result<CallText> bias_activation(Fields& fields, const gpu::DeviceShape& device) {
  gpu::BiasCall call;
  KPT_FIELD(dtype), KPT_FIELD(activation), KPT_FIELD(input), KPT_FIELD(bias), KPT_FIELD(bias_dtype);
  KPT_FIELD(residual), KPT_FIELD(output), KPT_FIELD(rows), KPT_FIELD(width);
  KPT_FIELD(input_stride), KPT_FIELD(residual_stride);
  return finish(fields, gpu::plan_bias_activation(call, device));
}

Result<CallText> convert(Fields& fields, const gpu::DeviceShape& device) {
  gpu::ConvertCall call;
  KPT_FIELD(from), KPT_FIELD(to), KPT_FIELD(input), KPT_FIELD(output), KPT_FIELD(count), KPT_FIELD(scale);
  KPT_FIELD(row_width);
  return finish(fields, gpu::plan_convert(call, device));
}

Result<CallText> quantize_rows(Fields& fields, const gpu::DeviceShape& device) {
  gpu::QuantizeRowsCall call;
  KPT_FIELD(from), KPT_FIELD(to), KPT_FIELD(input), KPT_FIELD(output), KPT_FIELD(scale), KPT_FIELD(rows);
  KPT_FIELD(width), KPT_FIELD(input_stride);
  return finish(fields, gpu::plan_quantize_rows(call, device));
}

Result<CallText> tensor_scale(Fields& fields, const gpu::DeviceShape& device) {
  gpu::TensorScaleCall call;
  KPT_FIELD(from), KPT_FIELD(to), KPT_FIELD(input), KPT_FIELD(count), KPT_FIELD(largest), KPT_FIELD(scale);
  KPT_FIELD(workspace);
  return finish_with_workspace(fields, call, device, gpu::tensor_scale_workspace, gpu::plan_tensor_scale);
}

Result<CallText> quantize_tensor(Fields& fields, const gpu::DeviceShape& device) {
  gpu::QuantizeTensorCall call;
  KPT_FIELD(from), KPT_FIELD(input), KPT_FIELD(output), KPT_FIELD(scale), KPT_FIELD(rows), KPT_FIELD(width);
  KPT_FIELD(input_stride), KPT_FIELD(workspace), KPT_FIELD(history.magnitudes), KPT_FIELD(history.position);
  KPT_FIELD(history.begun);
  std::int64_t capacity = 0;
  fields.read("history.capacity", capacity);
  if (capacity < 0 || capacity > 1024) fields.fail("history.capacity", "is not from 0 to 1024");
  call.history.capacity = static_cast<std::int32_t>(capacity);
  return finish_with_workspace(fields, call, device, gpu::quantize_tensor_workspace, gpu::plan_quantize_tensor);
}

Result<CallText> transpose(Fields& fields, const gpu::DeviceShape& device) {
  gpu::TransposeCall call;
  KPT_FIELD(from), KPT_FIELD(to), KPT_FIELD(input), KPT_FIELD(output), KPT_FIELD(scale), KPT_FIELD(batches);
  KPT_FIELD(rows), KPT_FIELD(columns), KPT_FIELD(input_stride), KPT_FIELD(output_stride);
  KPT_FIELD(input_batch_stride), KPT_FIELD(output_batch_stride);
  return finish(fields, gpu::plan_transpose(call, device));
}

Result<CallText> embedding(Fields& fields, const gpu::DeviceShape& device) {
  gpu::EmbeddingCall call;
  KPT_FIELD(dtype), KPT_FIELD(id_dtype), KPT_FIELD(table), KPT_FIELD(ids), KPT_FIELD(output), KPT_FIELD(count);
  KPT_FIELD(table_rows), KPT_FIELD(width), KPT_FIELD(table_stride), KPT_FIELD(out_of_range);
  return finish(fields, gpu::plan_embedding(call, device));
}

Result<CallText> matrix(Fields& fields, const gpu::DeviceShape& device) {
  gpu::MatrixCall call;
  KPT_FIELD(dtype), KPT_FIELD(activation), KPT_FIELD(input), KPT_FIELD(weight), KPT_FIELD(bias), KPT_FIELD(bias_dtype);
  KPT_FIELD(row_scale), KPT_FIELD(column_scale), KPT_FIELD(residual), KPT_FIELD(output), KPT_FIELD(output_dtype);
  KPT_FIELD(rows), KPT_FIELD(columns), KPT_FIELD(depth), KPT_FIELD(input_stride), KPT_FIELD(weight_stride);
  return finish(fields, gpu::plan_matrix(call, device));
}

Result<CallText> attention(Fields& fields, const gpu::DeviceShape& device) {
  gpu::AttentionCall call;
  KPT_FIELD(dtype), KPT_FIELD(query), KPT_FIELD(key), KPT_FIELD(value), KPT_FIELD(output), KPT_FIELD(query_strides);
  KPT_FIELD(key_strides), KPT_FIELD(value_strides), KPT_FIELD(output_strides), KPT_FIELD(batches), KPT_FIELD(heads);
  KPT_FIELD(groups), KPT_FIELD(queries), KPT_FIELD(keys), KPT_FIELD(width), KPT_FIELD(mask), KPT_FIELD(mask_dtype);
  KPT_FIELD(mask_strides), KPT_FIELD(scale), KPT_FIELD(causal), KPT_FIELD(causal_offset);
  return finish(fields, gpu::plan_attention(call, device));
}

void read_operand(Fields& fields, const std::string& name, gpu::ElementInput& operand) {
  fields.read(name + ".data", operand.data);
  fields.read(name + ".dtype", operand.dtype);
  fields.read(name + ".strides", operand.strides);
  fields.read(name + ".number", operand.number);
  fields.read(name + ".integer", operand.integer);
}

Result<CallText> elementwise(Fields& fields, const gpu::DeviceShape& device) {
  gpu::ElementwiseCall call;
  KPT_FIELD(op), KPT_FIELD(in_integers), KPT_FIELD(activation), KPT_FIELD(dims), KPT_FIELD(factor);
  KPT_FIELD(factor_integer), KPT_FIELD(output), KPT_FIELD(output_dtype), KPT_FIELD(output_strides);
  read_operand(fields, "a", call.a);
  read_operand(fields, "b", call.b);
  read_operand(fields, "c", call.c);
  return finish(fields, gpu::plan_elementwise(call, device));
}

gpu::GatherCall read_gather(Fields& fields) {
  gpu::GatherCall call;
  KPT_FIELD(dtype), KPT_FIELD(source), KPT_FIELD(output), KPT_FIELD(dims), KPT_FIELD(source_strides), KPT_FIELD(wrap);
  KPT_FIELD(out_of_range);
  for (int i = 0; fields.has(fmt::format("axes.{}.indices", i)); ++i) {
    const std::string name = fmt::format("axes.{}", i);
    gpu::GatherAxis& axis = call.axes.emplace_back();
    fields.read(name + ".indices", axis.indices);
    fields.read(name + ".strides", axis.strides);
    fields.read(name + ".extent", axis.extent);
    fields.read(name + ".source_stride", axis.source_stride);
  }
  return call;
}

Result<CallText> gather(Fields& fields, const gpu::DeviceShape& device) {
  const gpu::GatherCall call = read_gather(fields);
  return finish(fields, gpu::plan_gather(call, device));
}

Result<CallText> scatter(Fields& fields, const gpu::DeviceShape& device) {
  const gpu::GatherCall call = read_gather(fields);
  return finish(fields, gpu::plan_scatter(call, device));
}

void read_axes(Fields& fields, const std::string& name, std::vector<gpu::ReduceAxis>& axes) {
  std::vector<std::int64_t> extents, strides;
  fields.read(name + ".extent", extents);
  fields.read(name + ".stride", strides);
  if (extents.size() != strides.size()) return fields.fail(name, "has not as many extents as strides");
  for (std::size_t i = 0; i < extents.size(); ++i) axes.push_back({extents[i], strides[i]});
}

Result<CallText> reduce(Fields& fields, const gpu::DeviceShape& device) {
  gpu::ReduceCall call;
  KPT_FIELD(op), KPT_FIELD(dtype), KPT_FIELD(input), KPT_FIELD(output), KPT_FIELD(output_dtype);
  read_axes(fields, "kept", call.kept);
  read_axes(fields, "reduced", call.reduced);
  return finish(fields, gpu::plan_reduce(call, device));
}

void read_side(Fields& fields, const std::string& name, gpu::ProductSide& side) {
  fields.read(name + ".data", side.data);
  fields.read(name + ".dtype", side.dtype);
  fields.read(name + ".batch_strides", side.batch_strides);
  fields.read(name + ".line_stride", side.line_stride);
  fields.read(name + ".depth_stride", side.depth_stride);
}

Result<CallText> product(Fields& fields, const gpu::DeviceShape& device) {
  gpu::ProductCall call;
  KPT_FIELD(activation), KPT_FIELD(scale), KPT_FIELD(bias), KPT_FIELD(bias_dtype), KPT_FIELD(residual);
  KPT_FIELD(output), KPT_FIELD(output_dtype), KPT_FIELD(output_batch_strides), KPT_FIELD(output_row_stride);
  KPT_FIELD(batches), KPT_FIELD(rows), KPT_FIELD(columns), KPT_FIELD(depth);
  read_side(fields, "left", call.left);
  read_side(fields, "right", call.right);
  return finish(fields, gpu::plan_product(call, device));
}

Result<CallText> weight_only(Fields& fields, const gpu::DeviceShape& device) {
  gpu::WeightOnlyCall call;
  KPT_FIELD(input), KPT_FIELD(input_dtype), KPT_FIELD(input_stride), KPT_FIELD(weight), KPT_FIELD(weight_dtype);
  KPT_FIELD(scale), KPT_FIELD(group), KPT_FIELD(bias), KPT_FIELD(bias_dtype), KPT_FIELD(residual);
  KPT_FIELD(residual_dtype), KPT_FIELD(residual_stride), KPT_FIELD(output), KPT_FIELD(output_dtype);
  KPT_FIELD(activation), KPT_FIELD(rows), KPT_FIELD(columns), KPT_FIELD(depth);
  return finish(fields, gpu::plan_weight_only(call, device));
}

Result<CallText> blind_rows(Fields& fields, const gpu::DeviceShape& device) {
  gpu::BlindRowsCall call;
  KPT_FIELD(dtype), KPT_FIELD(mask), KPT_FIELD(result), KPT_FIELD(batches), KPT_FIELD(heads), KPT_FIELD(queries);
  KPT_FIELD(keys), KPT_FIELD(width), KPT_FIELD(mask_batch_stride), KPT_FIELD(mask_head_stride);
  KPT_FIELD(mask_query_stride), KPT_FIELD(mask_key_stride), KPT_FIELD(result_batch_stride);
  KPT_FIELD(result_head_stride), KPT_FIELD(result_query_stride);
  return finish(fields, gpu::plan_blind_rows(call, device));
}

Result<CallText> unpack_int4(Fields& fields, const gpu::DeviceShape& device) {
  gpu::UnpackInt4Call call;
  KPT_FIELD(input), KPT_FIELD(output), KPT_FIELD(to), KPT_FIELD(scale), KPT_FIELD(count), KPT_FIELD(group);
  return finish(fields, gpu::plan_unpack_int4(call, device));
}

#undef KPT_FIELD

struct CallKind {
  std::string_view name;
  Result<CallText> (*plan)(Fields&, const gpu::DeviceShape&);
};

constexpr CallKind kCalls[] = {
    {"norm", norm},
    {"norm_backward", norm_backward},
    {"softmax", softmax},
    {"rotary", rotary},
    {"gated", gated},
    {"bias_activation", bias_activation},
    {"convert", convert},
    {"quantize_rows", quantize_rows},
    {"quantize_tensor", quantize_tensor},
    {"transpose", transpose},
    {"tensor_scale", tensor_scale},
    {"embedding", embedding},
    {"matrix", matrix},
    {"attention", attention},
    {"elementwise", elementwise},
    {"gather", gather},
    {"scatter", scatter},
    {"reduce", reduce},
    {"product", product},
    {"weight_only", weight_only},
    {"unpack_int4", unpack_int4},
    {"blind_rows", blind_rows},
};

}  // namespace

Result<CallText> plan_from_text(std::string_view text, const gpu::DeviceShape& device) {
  const auto words = split(trim(text), ' ');
  if (words.empty()) return Status(StatusCode::kInvalidArgument, "there is no call");
  for (const CallKind& kind : kCalls) {
    if (kind.name != words[0]) continue;
    Fields fields{std::span<const std::string_view>(words).subspan(1)};
    return kind.plan(fields, device);
  }
  return Status(StatusCode::kInvalidArgument, fmt::format("'{}' is no call", printable(words[0], 64)));
}

std::string to_text(const gpu::Launch& launch) {
  std::string text = fmt::format("{} {} {} ", launch.kernel, launch.blocks, launch.threads);
  for (std::size_t i = 0; i < launch.arg_bytes; ++i) {
    text += fmt::format("{:02x}", std::to_integer<unsigned>(launch.args[i]));
  }
  return text;
}

}  // namespace kpt
