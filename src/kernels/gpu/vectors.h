// Reading and writing V elements at once, as float32. Addresses must be aligned to 16 bytes, or to the V elements
// together where they are fewer.
#pragma once

#include "kernels/gpu/numbers.h"

namespace kpt::gpu {

// Elements of T in 16 bytes, the widest access of all GPUs here.
template <typename T>
inline constexpr int kVector = static_cast<int>(16 / sizeof(T));

// Sixteen bytes or fewer that are read by one instruction. On the host it may lie over memory of another type.
#if defined(KPT_SIMT_HOST)
#define KPT_PACKED(bytes) __attribute__((aligned(bytes), may_alias))
#else
#define KPT_PACKED(bytes) __attribute__((aligned(bytes)))
#endif
template <typename T, int N>
struct KPT_PACKED(sizeof(T) * N) Pack {
  T values[N];
};

// How many elements of V go into one access.
template <typename T, int V>
inline constexpr int kPart = V < kVector<T> ? V : kVector<T>;

template <int V, typename T>
KPT_DEVICE void load_values(const T* source, T (&values)[V]) {
  constexpr int kCount = kPart<T, V>;
  KPT_UNROLL
  for (int part = 0; part < V / kCount; ++part) {
    const Pack<T, kCount> pack = reinterpret_cast<const Pack<T, kCount>*>(source)[part];
    KPT_UNROLL
    for (int i = 0; i < kCount; ++i) values[part * kCount + i] = pack.values[i];
  }
}

template <int V, typename T>
KPT_DEVICE void load_floats(const T* source, float (&values)[V]) {
  T raw[V];
  load_values<V>(source, raw);
  KPT_UNROLL
  for (int i = 0; i < V; ++i) values[i] = to_float(raw[i]);
}

template <int V, typename T>
KPT_DEVICE void store_values(T* target, const T (&values)[V]) {
  constexpr int kCount = kPart<T, V>;
  KPT_UNROLL
  for (int part = 0; part < V / kCount; ++part) {
    Pack<T, kCount> pack;
    KPT_UNROLL
    for (int i = 0; i < kCount; ++i) pack.values[i] = values[part * kCount + i];
    reinterpret_cast<Pack<T, kCount>*>(target)[part] = pack;
  }
}

template <int V, typename T>
KPT_DEVICE void store_floats(T* target, const float (&values)[V]) {
  T raw[V];
  KPT_UNROLL
  for (int i = 0; i < V; ++i) raw[i] = from_float<T>(values[i]);
  store_values<V>(target, raw);
}

// Weights and biases are of the activations' type or float32.
template <typename T, int V>
KPT_DEVICE void load_parameters(const void* source, bool is_float, Int64 first, float (&values)[V]) {
  if (is_float) {
    load_floats<V>(static_cast<const float*>(source) + first, values);
  } else {
    load_floats<V>(static_cast<const T*>(source) + first, values);
  }
}

template <typename T>
KPT_DEVICE float load_parameter(const void* source, bool is_float, Int64 index) {
  return is_float ? static_cast<const float*>(source)[index] : to_float(static_cast<const T*>(source)[index]);
}

// index / divisor, by the short division where the index allows it: the long one takes some hundred instructions.
KPT_DEVICE Int64 divide(Int64 index, Int64 divisor) {
  if (((index | divisor) >> 32) == 0)
    return static_cast<Int64>(static_cast<UInt32>(index) / static_cast<UInt32>(divisor));
  return index / divisor;
}

}  // namespace kpt::gpu
