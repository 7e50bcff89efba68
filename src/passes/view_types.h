// When the layout of a value changes, so do the recorded strides of its views.
#pragma once

#include "passes/graph_edit.h"

namespace kpt {

// Follows the views of `id` (view, reshape, transpose, permute, squeeze, slice) and records strides as they come from
// the type that `id` has now. A view that may no longer be possible without a copy becomes a reshape, also behind views
// that are not followed; so nobody may write what `id` shares.
void refresh_views(GraphEdit& edit, ir::ValueId id);

// Records row-major strides for what a node of ours gives, and refreshes the views where others were recorded.
void make_row_major(GraphEdit& edit, ir::ValueId id);

// Of an image [N, C, H, W].
std::vector<ir::Expr> channels_last_strides(const std::vector<ir::Expr>& dims);

}  // namespace kpt
