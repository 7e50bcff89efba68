// The pieces that reductions, norms and attention share. All take values in float32 or float64.
#pragma once

#include "engines/xla/stablehlo/builder.h"

namespace kpt::xla {

// The axes stay, with extent 1.
Value reduce_kept(Builder& builder, std::string_view operation, const Value& x, const Value& init, const Extents& axes);
Value sum_kept(Builder& builder, const Value& x, const Extents& axes);
Value mean_kept(Builder& builder, const Value& x, const Extents& axes);
// Mean of the squared distances from `mean`, which has the axes with extent 1; divided by count - correction.
Value variance_kept(Builder& builder, const Value& x, const Value& mean, const Extents& axes, double correction);
Value softmax(Builder& builder, const Value& x, std::size_t axis);
Value log_softmax(Builder& builder, const Value& x, std::size_t axis);
// A row of nothing but -inf gives zeros, not NaN: what attention does for a row that may look nowhere.
Value safe_softmax(Builder& builder, const Value& x, std::size_t axis);

}  // namespace kpt::xla
