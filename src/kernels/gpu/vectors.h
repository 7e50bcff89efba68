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

// Sixteen bytes as they lie in memory: kVector<T> elements that stay packed while they are held in registers.
using Words = Pack<UInt32, 4>;

// The words at source[index], which are read once; on NVIDIA they leave the first cache to what every row reads. Zeros
// where they are not wanted; source may be null then.
template <typename T>
KPT_DEVICE Words load_once(bool wanted, const T* source, Int64 index) {
#if defined(KPT_SIMT_CUDA)
  Words words;
  asm volatile(
      "{\n\t.reg .pred wanted;\n\tsetp.ne.u32 wanted, %5, 0;\n\t"
      "mov.b32 %0, 0;\n\tmov.b32 %1, 0;\n\tmov.b32 %2, 0;\n\tmov.b32 %3, 0;\n\t"
      "@wanted ld.global.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];\n\t}"
      : "=&r"(words.values[0]), "=&r"(words.values[1]), "=&r"(words.values[2]), "=&r"(words.values[3])
      : "l"(source + index), "r"(static_cast<UInt32>(wanted)));
  return words;
#else
  return wanted ? *reinterpret_cast<const Words*>(source + index) : Words{};
#endif
}

// Likewise what every row reads. `otherwise` in each word where it is not wanted.
template <typename T>
KPT_DEVICE Words load_of_all_rows(bool wanted, const T* source, Int64 index, UInt32 otherwise) {
#if defined(KPT_SIMT_CUDA)
  Words words;
  asm volatile(
      "{\n\t.reg .pred wanted;\n\tsetp.ne.u32 wanted, %5, 0;\n\t"
      "mov.b32 %0, %6;\n\tmov.b32 %1, %6;\n\tmov.b32 %2, %6;\n\tmov.b32 %3, %6;\n\t"
      "@wanted ld.global.v4.b32 {%0, %1, %2, %3}, [%4];\n\t}"
      : "=&r"(words.values[0]), "=&r"(words.values[1]), "=&r"(words.values[2]), "=&r"(words.values[3])
      : "l"(source + index), "r"(static_cast<UInt32>(wanted)), "r"(otherwise));
  return words;
#else
  return wanted ? *reinterpret_cast<const Words*>(source + index) : Words{{otherwise, otherwise, otherwise, otherwise}};
#endif
}

// The same words, of which the compiler does not know it: elements that it unpacked from the old ones are unpacked
// again and need not be kept, in twice the registers.
KPT_DEVICE Words packed_again(Words words) {
#if defined(KPT_SIMT_CUDA)
  const UInt32 nothing = blockIdx.y;  // blocks have one dimension, which is not known here
  KPT_UNROLL
  for (int i = 0; i < 4; ++i) words.values[i] ^= nothing;
#elif defined(KPT_SIMT_HIP)
  asm volatile("" : "+v"(words.values[0]), "+v"(words.values[1]), "+v"(words.values[2]), "+v"(words.values[3]));
#endif
  return words;
}

template <typename T>
struct PackedFloats {  // of 16 bits, two in a word
  KPT_DEVICE static void unpack(const Words& words, float (&values)[8]) {
    KPT_UNROLL
    for (int i = 0; i < 8; i += 2) {
      values[i] = to_float(T{static_cast<UInt16>(words.values[i / 2] & 0xffffU)});
      values[i + 1] = to_float(T{static_cast<UInt16>(words.values[i / 2] >> 16U)});
    }
  }
  KPT_DEVICE static Words pack(const float (&values)[8]) {
    Words words;
    KPT_UNROLL
    for (int i = 0; i < 8; i += 2) words.values[i / 2] = pack_pair<T>(values[i], values[i + 1]);
    return words;
  }
};

template <>
struct PackedFloats<float> {
  KPT_DEVICE static void unpack(const Words& words, float (&values)[4]) {
    KPT_UNROLL
    for (int i = 0; i < 4; ++i) values[i] = float_of(words.values[i]);
  }
  KPT_DEVICE static Words pack(const float (&values)[4]) {
    Words words;
    KPT_UNROLL
    for (int i = 0; i < 4; ++i) words.values[i] = bits_of(values[i]);
    return words;
  }
};

// Words of ones.
KPT_DEVICE constexpr UInt32 word_of_ones(float) { return 0x3f800000U; }
KPT_DEVICE constexpr UInt32 word_of_ones(Half) { return 0x3c003c00U; }
KPT_DEVICE constexpr UInt32 word_of_ones(BFloat) { return 0x3f803f80U; }

// Weights and biases of V elements, of type P; `otherwise` where they are not wanted.
template <typename P, int V>
KPT_DEVICE void load_of_all_rows(bool wanted, const P* source, Int64 index, UInt32 otherwise, float (&values)[V]) {
  KPT_UNROLL
  for (int part = 0; part < V / kVector<P>; ++part) {
    float some[kVector<P>];
    PackedFloats<P>::unpack(load_of_all_rows(wanted, source, index + part * kVector<P>, otherwise), some);
    KPT_UNROLL
    for (int i = 0; i < kVector<P>; ++i) values[part * kVector<P> + i] = some[i];
  }
}

template <typename T>
KPT_DEVICE void unpack(const Words& words, float (&values)[kVector<T>]) {
  PackedFloats<T>::unpack(words, values);
}

template <typename T>
KPT_DEVICE void store_packed(bool wanted, T* target, const float (&values)[kVector<T>]) {
  const Words words = PackedFloats<T>::pack(values);
  if (wanted) *reinterpret_cast<Words*>(target) = words;
}

// index / divisor, by the short division where the index allows it: the long one takes some hundred instructions.
KPT_DEVICE Int64 divide(Int64 index, Int64 divisor) {
  if (((index | divisor) >> 32) == 0)
    return static_cast<Int64>(static_cast<UInt32>(index) / static_cast<UInt32>(divisor));
  return index / divisor;
}

}  // namespace kpt::gpu
