// Images in another size: the nearest pixel, or between the four around.
#include <algorithm>
#include <cmath>
#include <vector>

#include "engines/xla/stablehlo/call.h"

namespace kpt::xla {
namespace {

constexpr std::int64_t kMostPixels = 1 << 14;  // of an axis: its places are written out

// The factor that the caller gave for one of the two axes; 0: none, the sizes decide.
double read_factor(Call& call, std::size_t index) {
  const char* names[] = {"scales_h", "scales_w"};
  if (call.has("scale_factors")) {
    const ir::Argument* list = nullptr;
    for (const ir::NamedArgument& argument : call.node().arguments) {
      if (argument.name == "scale_factors") list = &argument.value;
    }
    if (list == nullptr || list->list() == nullptr || list->list()->items.size() != 2)
      refuse("its factors are no pair");
    const auto* real = std::get_if<double>(&list->list()->items[index].value);
    if (real == nullptr) refuse("its factors are not known before the run");
    return *real;
  }
  return call.real(names[index], 0);
}

Value read_image(Call& call) {
  const Value x = call.tensor(call.has("input") ? "input" : "self");
  const Extents& dims = call.type().dims;
  if (x.rank() != 4 || dims.size() != 4) refuse("its operand is no image");
  for (std::size_t axis = 2; axis < 4; ++axis) {
    if (x.dims[axis] < 1 || x.dims[axis] > kMostPixels || dims[axis] < 1 || dims[axis] > kMostPixels) {
      refuse("its image is empty or too large");
    }
  }
  return x;
}

// How far one pixel of the result goes in the input.
template <typename Real>
Real step_of(std::int64_t extent, std::int64_t wanted, double factor) {
  return factor > 0 ? static_cast<Real>(1 / factor) : static_cast<Real>(extent) / static_cast<Real>(wanted);
}

// Whatever the image's type, PyTorch computes these places in float32. A factor that the caller gave does not count
// where the axis keeps its extent or has exactly twice as many pixels.
std::vector<std::int64_t> find_nearest(std::int64_t extent, std::int64_t wanted, double factor) {
  const auto step = step_of<float>(extent, wanted, factor);
  std::vector<std::int64_t> places;
  for (std::int64_t place = 0; place < wanted; ++place) {
    auto source = static_cast<std::int64_t>(std::floor(static_cast<float>(place) * step));
    if (wanted == extent) source = place;
    if (wanted == 2 * extent) source = place / 2;
    places.push_back(std::clamp<std::int64_t>(source, 0, extent - 1));
  }
  return places;
}

void lower_nearest(Call& call) {
  Builder& b = call.builder();
  Value x = read_image(call);
  for (std::size_t axis = 2; axis < 4; ++axis) {
    x = b.take(x, axis, find_nearest(x.dims[axis], call.type().dims[axis], read_factor(call, axis - 2)));
  }
  call.set(x);
}

// The two pixels around each place of the result, and the part of each.
struct Neighbours {
  std::vector<std::int64_t> below;
  std::vector<std::int64_t> above;
  std::vector<double> parts_below;
  std::vector<double> parts_above;
};

// In `Real`, in which PyTorch computes: float64 for images of float64, float32 for all others. An axis that keeps its
// extent is copied, whatever factor the caller gave: all of each pixel, and nothing of itself (an infinite one is NaN).
template <typename Real>
Neighbours find_neighbours(std::int64_t extent, std::int64_t wanted, double factor, bool aligned) {
  auto step = step_of<Real>(extent, wanted, factor);
  if (aligned) step = wanted > 1 ? static_cast<Real>(extent - 1) / static_cast<Real>(wanted - 1) : 0;
  constexpr Real kHalf = 0.5;
  Neighbours found;
  for (std::int64_t place = 0; place < wanted; ++place) {
    const auto at = static_cast<Real>(place);
    const bool copied = wanted == extent;
    const Real between = aligned ? at * step : std::max<Real>(0, (at + kHalf) * step - kHalf);
    const Real source = copied ? at : between;
    const auto first = std::min<std::int64_t>(static_cast<std::int64_t>(source), extent - 1);
    found.below.push_back(first);
    found.above.push_back(copied ? first : std::min<std::int64_t>(first + 1, extent - 1));
    found.parts_above.push_back(std::clamp<double>(static_cast<double>(source) - static_cast<double>(first), 0, 1));
    found.parts_below.push_back(1 - found.parts_above.back());
  }
  return found;
}

void lower_bilinear(Call& call) {
  Builder& b = call.builder();
  const Value image = read_image(call);
  Value x = b.convert(image, math_dtype(image.dtype));
  const bool aligned = call.flag("align_corners", false);
  for (std::size_t axis = 2; axis < 4; ++axis) {
    const double factor = read_factor(call, axis - 2);
    const auto find = x.dtype == DType::kFloat64 ? find_neighbours<double> : find_neighbours<float>;
    const Neighbours found = find(x.dims[axis], call.type().dims[axis], factor, aligned);
    // Each times its part, as PyTorch does: the difference of two infinite pixels would be NaN.
    const auto weighted = [&](const std::vector<std::int64_t>& places, const std::vector<double>& parts) {
      const Value pixels = b.take(x, axis, places);
      const Value row = b.dense_reals(parts, x.dtype, {static_cast<std::int64_t>(parts.size())});
      const auto along = static_cast<std::int64_t>(axis);
      return b.binary("multiply", {pixels, b.broadcast_in_dim(row, pixels.dims, {along})});
    };
    x = b.binary("add", {weighted(found.below, found.parts_below), weighted(found.above, found.parts_above)});
  }
  call.set(x);
}

constexpr Rule kResizeRules[] = {
    {"aten.upsample_bilinear2d.default", lower_bilinear},
    {"aten.upsample_bilinear2d.vec", lower_bilinear},
    {"aten.upsample_nearest2d.default", lower_nearest},
    {"aten.upsample_nearest2d.vec", lower_nearest},
};

}  // namespace

std::span<const Rule> resize_rules() { return kResizeRules; }

}  // namespace kpt::xla
