// The accuracy rule: a result is compared with the fp64 run of the same model, and beside it the error of the plain run
// that it replaces. A candidate may be as wrong as PyTorch itself is, times a small factor, never more.
#pragma once

#include <optional>
#include <string>

#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

// By the type that the model computes in. `multiplier` bounds the candidate's error by the baseline's.
struct Tolerance {
  double relative = 0;  // of the first, plain comparison
  double absolute = 0;
  double multiplier = 2;
};

// PyTorch's own figures for the type; exact comparison for integers and bools.
Tolerance default_tolerance(DType dtype);

struct Comparison {
  bool passed = false;
  double candidate_rmse = 0;           // against fp64
  double baseline_rmse = 0;            // against fp64
  double max_absolute_difference = 0;  // candidate against baseline
  double cosine = 1;                   // candidate against fp64
  // Up to which error against fp64 the rule lets it pass; nothing where it passed beyond that since every element is
  // close, and where no size of an error decided.
  std::optional<double> allowed_rmse = {};
  std::string reason = {};  // one clause when it failed: "an element is NaN where the reference is 1.5"
};

// `candidate` and `baseline` are of one type and shape, `reference` of that shape in float64 (floating types). Passes
// when all elements agree within the tolerance, or when the candidate's root mean square error against fp64 is at most
// multiplier × the baseline's + tolerance / 10 × min(1, the reference's size) (the factor is 3 for tensors of fewer
// than 1000 elements and for 16-bit types at least). NaN and infinity must be where the reference or the baseline has
// them, and a number where one of them has a number; where candidate and baseline have a number and the reference has
// none, they must agree within the tolerance. Integers, bools and complex numbers must be equal. Fails with
// kInvalidArgument when types or shapes do not go together.
Result<Comparison> compare(const Tensor& candidate, const Tensor& baseline, const Tensor& reference,
                           const Tolerance& tolerance);

// `reference` with the baseline's numbers where it has none: all there is to hold a result against there. The same
// tensor where it has all.
Result<Tensor> complete_reference(const Tensor& reference, const Tensor& baseline);

// For results that leave no room for rounding: every element equal, NaN where the other has NaN.
Result<Comparison> compare_equal(const Tensor& candidate, const Tensor& baseline);

}  // namespace kpt
