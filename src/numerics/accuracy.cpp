#include "numerics/accuracy.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "passes/promote_to_fp64.h"

namespace kpt {
namespace {

Status check_same_form(const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype() && a.dims() == b.dims()) return {};
  return {StatusCode::kInvalidArgument, fmt::format("{} cannot be compared with {}", a.to_string(), b.to_string())};
}

// Sums over the elements where candidate and reference are finite.
struct Sums {
  double candidate_squares = 0;
  double baseline_squares = 0;
  double dot = 0;
  double candidate_norm = 0;
  double reference_norm = 0;
  double max_difference = 0;
  std::size_t finite = 0;
  bool close = true;
};

bool same_kind(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return true;
}

}  // namespace

Tolerance default_tolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return {1e-7, 1e-7, 2};
    case DType::kFloat32: return {1.3e-6, 1e-5, 2};
    case DType::kFloat16: return {1e-3, 1e-5, 3};
    case DType::kBFloat16: return {1.6e-2, 1e-5, 3};
    default: return {0, 0, 1};
  }
}

Result<Comparison> compare_equal(const Tensor& candidate, const Tensor& baseline) {
  KPT_RETURN_IF_ERROR(check_same_form(candidate, baseline));
  const bool floating = is_floating(candidate.dtype());
  KPT_ASSIGN_OR_RETURN(const Tensor a_wide, floating ? promote_to_fp64(candidate) : candidate);
  KPT_ASSIGN_OR_RETURN(const Tensor b_wide, floating ? promote_to_fp64(baseline) : baseline);
  KPT_ASSIGN_OR_RETURN(const Tensor a, a_wide.contiguous_copy());
  KPT_ASSIGN_OR_RETURN(const Tensor b, b_wide.contiguous_copy());
  Comparison result;
  const std::size_t width = element_bytes(a.dtype());
  const auto* x = static_cast<const std::byte*>(a.data());
  const auto* y = static_cast<const std::byte*>(b.data());
  for (std::size_t index = 0; std::cmp_less(index, a.element_count()); ++index) {
    bool equal = std::memcmp(x + index * width, y + index * width, width) == 0;
    if (!equal && floating) {
      const double left = a.elements<double>()[index];
      const double right = b.elements<double>()[index];
      equal = left == right || (std::isnan(left) && std::isnan(right));
    }
    if (!equal) {
      result.reason = fmt::format("element {} of {} differs and must be equal", index, candidate.to_string());
      return result;
    }
  }
  result.passed = true;
  return result;
}

Result<Tensor> complete_reference(const Tensor& reference, const Tensor& baseline) {
  if (reference.dtype() != DType::kFloat64 || !is_floating(baseline.dtype()) ||
      !(reference.dims() == baseline.dims())) {
    return reference;
  }
  KPT_ASSIGN_OR_RETURN(Tensor dense, reference.contiguous_copy());
  const auto r = dense.elements<double>();
  if (std::ranges::all_of(r, [](double value) { return std::isfinite(value); })) return reference;
  KPT_ASSIGN_OR_RETURN(const Tensor wide, promote_to_fp64(baseline));
  KPT_ASSIGN_OR_RETURN(const Tensor b_dense, wide.contiguous_copy());
  const auto y = b_dense.elements<double>();
  for (std::size_t index = 0; index < r.size(); ++index) {
    if (!std::isfinite(r[index]) && std::isfinite(y[index])) r[index] = y[index];
  }
  return dense;
}

Result<Comparison> compare(const Tensor& candidate, const Tensor& baseline, const Tensor& reference,
                           const Tolerance& tolerance) {
  KPT_RETURN_IF_ERROR(check_same_form(candidate, baseline));
  if (!is_floating(candidate.dtype())) return compare_equal(candidate, baseline);
  if (reference.dtype() != DType::kFloat64 || !(reference.dims() == candidate.dims())) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{} is no reference for {}", reference.to_string(), candidate.to_string()));
  }
  KPT_ASSIGN_OR_RETURN(const Tensor a, promote_to_fp64(candidate));
  KPT_ASSIGN_OR_RETURN(const Tensor b, promote_to_fp64(baseline));
  KPT_ASSIGN_OR_RETURN(const Tensor a_dense, a.contiguous_copy());
  KPT_ASSIGN_OR_RETURN(const Tensor b_dense, b.contiguous_copy());
  KPT_ASSIGN_OR_RETURN(const Tensor r_dense, reference.contiguous_copy());
  const auto x = a_dense.elements<double>();
  const auto y = b_dense.elements<double>();
  const auto r = r_dense.elements<double>();
  Comparison result;
  Sums sums;
  for (std::size_t index = 0; index < x.size(); ++index) {
    // Where the plain run overflowed and the candidate did not, the candidate is better, provided it is near fp64.
    const bool usual = same_kind(x[index], y[index]) || same_kind(x[index], r[index]);
    if (!usual) {
      result.reason =
          fmt::format("element {} is {} where PyTorch has {} and fp64 {}", index, x[index], y[index], r[index]);
      return result;
    }
    if (!std::isfinite(x[index])) continue;
    const double difference = std::fabs(x[index] - y[index]);
    const bool close = difference <= tolerance.absolute + tolerance.relative * std::fabs(y[index]);
    if (std::isfinite(y[index])) sums.max_difference = std::max(sums.max_difference, difference);
    if (!std::isfinite(r[index])) {
      if (close || !std::isfinite(y[index])) continue;
      result.reason =
          fmt::format("element {} is {} where PyTorch has {} and fp64 no number", index, x[index], y[index]);
      return result;
    }
    ++sums.finite;
    sums.candidate_squares += (x[index] - r[index]) * (x[index] - r[index]);
    if (std::isfinite(y[index])) sums.baseline_squares += (y[index] - r[index]) * (y[index] - r[index]);
    sums.close = sums.close && std::isfinite(y[index]) && close;
    sums.dot += x[index] * r[index];
    sums.candidate_norm += x[index] * x[index];
    sums.reference_norm += r[index] * r[index];
  }
  const double count = std::max<double>(1, static_cast<double>(sums.finite));
  result.candidate_rmse = std::sqrt(sums.candidate_squares / count);
  result.baseline_rmse = std::sqrt(sums.baseline_squares / count);
  result.max_absolute_difference = sums.max_difference;
  if (sums.candidate_norm > 0 && sums.reference_norm > 0) {
    result.cosine = sums.dot / std::sqrt(sums.candidate_norm * sums.reference_norm);
  }
  const double multiplier = x.size() < 1000 ? std::max(3.0, tolerance.multiplier) : tolerance.multiplier;
  // The additive term of the rule, scaled down for small outputs: zeros must not pass for values of 1e-3.
  const double scale = std::min(1.0, std::sqrt(sums.reference_norm / count));
  const double allowed = multiplier * result.baseline_rmse + scale * tolerance.relative / 10;
  // Squares of large float64 numbers leave its range, and then say nothing.
  const bool within = std::isfinite(result.candidate_rmse) && result.candidate_rmse <= allowed;
  result.passed = sums.close || within;
  if (within || !result.passed) result.allowed_rmse = allowed;
  if (!result.passed) {
    result.reason = fmt::format("the error against fp64 is {:.3g}, PyTorch's is {:.3g}, allowed is {:.3g}",
                                result.candidate_rmse, result.baseline_rmse, allowed);
  }
  return result;
}

}  // namespace kpt
