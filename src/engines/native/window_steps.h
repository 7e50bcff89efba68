// Windows that move along the last axes of a tensor: what pools and convolutions are made of.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "engines/native/plan_builder.h"
#include "engines/native/view.h"

namespace kpt::native {

inline constexpr std::size_t kPlane = 2;  // axes that windows move along

// One number for all of the last `axes` axes of the plane, or one for each; what is absent leaves `values` as they are.
// Fails for numbers below `least`, and for those beyond all extents.
Status read_plane(const ir::Node& node, std::string_view name, std::size_t axes, std::int64_t least,
                  std::int64_t (&values)[kPlane]);

// How many places a window of `size` elements, `dilation` apart, has on an axis; nothing where it does not fit.
std::optional<std::int64_t> count_places(std::int64_t extent, std::int64_t size, std::int64_t stride,
                                         std::int64_t dilation);
// Elements between neighbours that are `step` elements of an axis apart. Zero where `extent` says that there are none,
// since the step may then be any number.
std::int64_t step_stride(std::int64_t stride, std::int64_t step, std::int64_t extent);

// By how many elements an axis grows in front and behind; what is negative is cut off.
struct Margins {
  std::int64_t before = 0, behind = 0;
};
// `margins`: of the last axes. `output` has the extents that come of it.
Status add_padding(PlanBuilder& plan, const View& input, const std::vector<Margins>& margins, const Number& fill,
                   const View& output);
// With as many elements more on both sides of the plane's axes; the input itself where there are none.
Result<View> padded(PlanBuilder& plan, const View& input, const std::int64_t (&padding)[kPlane], const Number& fill);

}  // namespace kpt::native
