// Scaled dot-product attention: scores and softmax in float32 (or float64), products in the operands' type.
#include "engines/xla/stablehlo/attention.h"

#include <cmath>
#include <limits>

#include "engines/xla/stablehlo/call.h"
#include "engines/xla/stablehlo/softmax.h"

namespace kpt::xla {
namespace {

Value apply_mask(Builder& b, const Value& scores, const Value& mask) {
  const Value spread = b.broadcast_to(mask, scores.dims);
  if (mask.dtype != DType::kBool) return b.binary("add", scores, b.convert(spread, scores.dtype));
  return b.select(spread, scores, b.splat(-std::numeric_limits<double>::infinity(), scores.dtype, scores.dims));
}

// [batches…, S, D] as [B, H, S, D]: batches beyond two are joined, missing ones added.
Value as_heads(Builder& b, const Value& x) {
  const std::size_t rank = x.rank();
  if (rank < 2) refuse("its operands have fewer than two dimensions");
  const std::int64_t heads = rank > 2 ? x.dims[rank - 3] : 1;
  std::int64_t batches = 1;
  for (std::size_t axis = 0; axis + 3 < rank; ++axis) batches *= x.dims[axis];
  return b.reshape(x, {batches, heads, x.dims[rank - 2], x.dims[rank - 1]});
}

Value spread_batches(Builder& b, const Value& x, const Extents& dims, bool heads_too) {
  if (x.rank() < 2) refuse("its operands have fewer than two dimensions");
  Extents wanted = dims;
  wanted.insert(wanted.end(), x.dims.end() - 2, x.dims.end());
  if (!heads_too && x.rank() == wanted.size() && x.rank() > 2) wanted[wanted.size() - 3] = x.dims[x.rank() - 3];
  return b.broadcast_to(x, wanted);
}

void lower_attention(Call& call) {
  Builder& b = call.builder();
  const Value query = call.tensor("query");
  const Extents& result = call.type().dims;
  if (call.real("dropout_p", 0) != 0) refuse("dropout in attention draws random numbers");
  if (result.size() < 2 || query.rank() < 2) refuse("its operands have fewer than two dimensions");
  const bool grouped = call.flag("enable_gqa", false);
  const Extents batches(result.begin(), result.end() - 2);
  Attention attention;
  attention.query = as_heads(b, spread_batches(b, query, batches, true));
  attention.key = as_heads(b, spread_batches(b, call.tensor("key"), batches, !grouped));
  attention.value = as_heads(b, spread_batches(b, call.tensor("value"), batches, !grouped));
  attention.causal = call.flag("is_causal", false);
  const double width = static_cast<double>(query.dims.back());
  attention.scale = call.real("scale", 1 / std::sqrt(width));
  if (const auto mask = call.find_tensor("attn_mask")) {
    Extents wanted = batches;
    wanted.push_back(query.dims[query.rank() - 2]);
    wanted.push_back(attention.key.dims[2]);
    // Masks of more or fewer batches go through the full shape; the usual four axes broadcast later, for free.
    attention.mask = result.size() == 4 ? *mask : as_heads(b, b.broadcast_to(*mask, wanted));
  }
  call.set(b.reshape(attend(b, attention), result));
  for (std::size_t other = 1; other < call.result_count(); ++other) {
    if (call.is_used(other)) refuse("its logarithms of sums are used");
    call.leave_out(other);
  }
}

constexpr Rule kAttentionRules[] = {
    {"aten._scaled_dot_product_flash_attention_for_cpu.default", lower_attention},
    {"aten.scaled_dot_product_attention.default", lower_attention},
};

}  // namespace

Value attend(Builder& b, const Attention& attention) {
  const Value& query = attention.query;
  const Value& key = attention.key;
  const std::int64_t batch = query.dims[0];
  const std::int64_t heads = query.dims[1];
  const std::int64_t groups = key.dims[1];
  const std::int64_t rows = query.dims[2];
  const std::int64_t columns = key.dims[2];
  if (groups < 1 || heads % groups != 0) refuse("its heads are no multiple of those of the keys");
  if (query.dtype != key.dtype || key.dtype != attention.value.dtype) refuse("its operands have different types");
  const DType wide = math_dtype(query.dtype);
  // The heads that share a key stand one below the other, as rows of one product.
  const std::int64_t tall = heads / groups * rows;
  const Value stacked = b.reshape(query, {batch, groups, tall, query.dims[3]});
  Value scores = b.dot(stacked, key, {{0, 1}, {0, 1}, {3}, {3}}, wide);
  scores = b.reshape(scores, {batch, heads, rows, columns});
  scores = b.binary("multiply", scores, b.splat(attention.scale, wide, scores.dims));
  if (attention.causal) {
    const Extents square = {rows, columns};
    const Value seen = b.compare("LE", {b.iota(DType::kInt32, square, 1), b.iota(DType::kInt32, square, 0)});
    scores = apply_mask(b, scores, seen);
  }
  if (attention.mask) scores = apply_mask(b, scores, *attention.mask);
  const bool may_be_empty = attention.mask.has_value();
  const Value weights = may_be_empty ? safe_softmax(b, scores, 3) : softmax(b, scores, 3);
  const Value narrow = b.reshape(b.convert(weights, query.dtype), {batch, groups, tall, columns});
  const Value mixed = b.dot(narrow, attention.value, {{0, 1}, {0, 1}, {3}, {2}}, wide);
  return b.reshape(mixed, {batch, heads, rows, attention.value.dims[3]});
}

std::span<const Rule> attention_rules() { return kAttentionRules; }

}  // namespace kpt::xla
