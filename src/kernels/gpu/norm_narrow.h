// Norms of short rows; norm_kernels.h says when they are taken.
#pragma once

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/narrow_rows.h"
#include "kernels/gpu/norm_rows.h"

namespace kpt::gpu {

template <typename T, int R, bool kResidual, typename L>
KPT_DEVICE void load_narrow(const NormArgs& a, const NarrowRows<R, L>& rows, float (&x)[R][kVector<T>]) {
  const Int64 column = rows.access * kVector<T>;
  Words words[R];
  Words more[R];
  KPT_UNROLL
  for (int r = 0; r < R; ++r) {
    const bool wanted = rows.has && rows.row(r) < a.rows;
    words[r] = load_once(wanted, static_cast<const T*>(a.input), rows.row(r) * a.input_stride + column);
    if constexpr (kResidual) {
      more[r] = load_once(wanted, static_cast<const T*>(a.residual), rows.row(r) * a.residual_stride + column);
    }
  }
  KPT_UNROLL
  for (int r = 0; r < R; ++r) {
    unpack<T>(words[r], x[r]);
    if constexpr (kResidual) {
      float other[kVector<T>];
      unpack<T>(more[r], other);
      KPT_UNROLL
      for (int i = 0; i < kVector<T>; ++i) x[r][i] += other[i];
    }
  }
}

// Mean (0 for RMSNorm) and 1 / deviation of each row.
template <int R, int V, typename L>
KPT_DEVICE void narrow_statistics(const NormArgs& a, L& lane, const NarrowRows<R, L>& rows, const float (&x)[R][V],
                                  float (&mean)[R], float (&scale)[R]) {
  KPT_UNROLL
  for (int r = 0; r < R; ++r) mean[r] = 0;
  if (a.centered != 0) {
    KPT_UNROLL
    for (int r = 0; r < R; ++r) {
      KPT_UNROLL
      for (int i = 0; i < V; ++i) mean[r] += x[r][i];  // zeros where the row has ended
    }
    narrow_sums(lane, rows.lanes, mean);
    KPT_UNROLL
    for (int r = 0; r < R; ++r) mean[r] /= static_cast<float>(a.width);
  }
  KPT_UNROLL
  for (int r = 0; r < R; ++r) {
    float squares = 0;
    KPT_UNROLL
    for (int i = 0; i < V; ++i) squares += (x[r][i] - mean[r]) * (x[r][i] - mean[r]);
    scale[r] = rows.has ? squares : 0.0F;
  }
  narrow_sums(lane, rows.lanes, scale);
  KPT_UNROLL
  for (int r = 0; r < R; ++r) scale[r] = inverse_root(scale[r] / static_cast<float>(a.width) + a.epsilon);
}

template <typename T, int R, bool kResidual, typename L>
KPT_DEVICE void norm_narrow(const NormArgs& a, L& lane) {
  const Int64 wave = lane.block() * (a.threads / L::kWave) + lane.wave();
  const NarrowRows<R, L> rows(lane, wave, a.row_threads, a.width / kVector<T>);
  if (rows.first >= a.rows) return;  // the whole wave
  float x[R][kVector<T>];
  load_narrow<T, R, kResidual>(a, rows, x);
  const Int64 column = rows.access * kVector<T>;
  if (a.sum != nullptr) {
    KPT_UNROLL
    for (int r = 0; r < R; ++r) {
      store_packed<T>(rows.has && rows.row(r) < a.rows, static_cast<T*>(a.sum) + rows.row(r) * a.width + column, x[r]);
    }
  }
  float weight[kVector<T>];
  float bias[kVector<T>];
  const bool is_float = a.weight_is_float != 0;
  load_narrow_parameters<T>(rows.has && a.weight != nullptr, a.weight, is_float, column, true, weight);
  load_narrow_parameters<T>(rows.has && a.bias != nullptr, a.bias, is_float, column, false, bias);
  float mean[R];
  float scale[R];
  narrow_statistics(a, lane, rows, x, mean, scale);
  KPT_UNROLL
  for (int r = 0; r < R; ++r) {
    const bool wanted = rows.has && rows.row(r) < a.rows;
    store_statistics(a, rows.row(r), wanted && rows.access == 0, mean[r], scale[r]);
    if (a.normed == nullptr) continue;
    float y[kVector<T>];
    KPT_UNROLL
    for (int i = 0; i < kVector<T>; ++i) y[i] = (x[r][i] - mean[r]) * scale[r] * weight[i] + bias[i];
    store_packed<T>(wanted, static_cast<T*>(a.normed) + rows.row(r) * a.width + column, y);
  }
}

}  // namespace kpt::gpu
