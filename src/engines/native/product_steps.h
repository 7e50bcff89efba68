// Steps that multiply matrices, for rules of all kinds.
#pragma once

#include <initializer_list>
#include <optional>

#include "engines/native/plan_builder.h"
#include "engines/native/view.h"
#include "kernels/gpu/device_math.h"

namespace kpt::native {

// output = activation(scale · left · rightᵀ + bias + residual)
struct ProductStep {
  View left;                     // [b0, b1, b2, rows, depth]
  View right;                    // [b0, b1, b2, columns, depth]
  View output;                   // [b0, b1, b2, rows, columns], columns without gaps
  std::optional<View> bias;      // [columns]
  std::optional<View> residual;  // lies as the output does, and may be it
  gpu::Activation activation = gpu::Activation::kNone;
  float scale = 1;
};

void add_product(PlanBuilder& plan, const ProductStep& step);

// Whether one product takes all of them; null views do not matter.
Status check_product_types(std::initializer_list<const View*> views);

}  // namespace kpt::native
