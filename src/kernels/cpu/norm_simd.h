// The loops of norm.cpp, compiled once for each instruction set (simd_kernels.h).
#pragma once

#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd_kernels.h"

namespace kpt::kernels::KPT_SIMD {

// Totals are kept in float32 for so many elements at most, and added up in float64.
inline constexpr std::int64_t kChunk = 1024;

// Adds up term(x[i]) for a row: vectors in four sums, which hide the latency of additions.
template <typename VectorTerm, typename Term>
inline double total(const float* row, std::int64_t count, const VectorTerm& vector_term, const Term& term) {
  double sum = 0;
  std::int64_t index = 0;
  while (index + 4 * kLanes <= count) {
    const std::int64_t end = count - index < kChunk ? count : index + kChunk;
    Floats a{}, b{}, c{}, d{};
    for (; index + 4 * kLanes <= end; index += 4 * kLanes) {
      a += vector_term(load(row + index));
      b += vector_term(load(row + index + kLanes));
      c += vector_term(load(row + index + 2 * kLanes));
      d += vector_term(load(row + index + 3 * kLanes));
    }
    sum += static_cast<double>(sum_of((a + b) + (c + d)));
  }
  for (; index < count; ++index) sum += static_cast<double>(term(row[index]));
  return sum;
}

inline void add_rows(const float* a, const float* b, std::int64_t count, float* sum) {
  std::int64_t index = 0;
  for (; index + kLanes <= count; index += kLanes) store(sum + index, load(a + index) + load(b + index));
  for (; index < count; ++index) sum[index] = a[index] + b[index];
}

// The row, less its mean, by its deviation; with weight and bias where they are not null.
inline void norm_row(const float* row, std::int64_t count, const NormForm& form, float* normed) {
  const double inverse = 1.0 / static_cast<double>(count);
  float mean = 0;
  double square = 0;
  if (form.centered) {
    mean = static_cast<float>(total(row, count, [](Floats x) { return x; }, [](float x) { return x; }) * inverse);
    const Floats means = splat(mean);
    square = total(
        row, count, [means](Floats x) { return (x - means) * (x - means); },
        [mean](float x) { return (x - mean) * (x - mean); });
  } else {
    square = total(row, count, [](Floats x) { return x * x; }, [](float x) { return x * x; });
  }
  const auto scale = static_cast<float>(1.0 / __builtin_sqrt(square * inverse + form.epsilon));
  const Floats means = splat(mean);
  const Floats scales = splat(scale);
  std::int64_t index = 0;
  for (; index + kLanes <= count; index += kLanes) {
    Floats value = (load(row + index) - means) * scales;
    if (form.weight != nullptr) value *= load(form.weight + index);
    if (form.bias != nullptr) value += load(form.bias + index);
    store(normed + index, value);
  }
  for (; index < count; ++index) {
    float value = (row[index] - mean) * scale;
    if (form.weight != nullptr) value *= form.weight[index];
    if (form.bias != nullptr) value += form.bias[index];
    normed[index] = value;
  }
}

}  // namespace kpt::kernels::KPT_SIMD
