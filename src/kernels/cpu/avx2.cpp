#include <immintrin.h>

#include <cstring>

#include "kernels/cpu/expand_weights.h"
#include "kernels/cpu/finish.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/pack_input.h"
#include "kernels/cpu/unroll.h"

namespace kpt::kernels {
namespace {

constexpr std::ptrdiff_t kRows = 4;
constexpr std::ptrdiff_t kColumns = 24;

struct Avx2 : ExpandCodes<kernels::kColumns> {
  static constexpr int kWidth = 8;
  static constexpr int kColumns = kernels::kColumns;
};

// One k of float32: inputs[kRows], weights[kColumns].
struct Float32 {
  using Vector = __m256;
  using Scalar = float;
  static constexpr bool kHoldsWeights = true;  // 12 sums, 3 weights and an input: all registers
  static constexpr std::ptrdiff_t kInputStep = kRows * 4;
  static constexpr std::ptrdiff_t kWeightStep = kColumns * 4;

  static Vector zero() { return _mm256_setzero_ps(); }
  static Vector add(Vector a, Vector b) { return _mm256_add_ps(a, b); }
  static Vector weights(const char* address, std::ptrdiff_t part) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(address) + part * 8);
  }
  static Vector input(const char* address, std::ptrdiff_t row) {
    return _mm256_broadcast_ss(reinterpret_cast<const float*>(address) + row);
  }
  static Vector multiply(Vector sum, Vector a, Vector w) { return _mm256_fmadd_ps(a, w, sum); }
  static Vector load(const float* address) { return _mm256_loadu_ps(address); }
  static void store(float* address, Vector value) { _mm256_storeu_ps(address, value); }
};

// Two k of int8: inputs as pairs of int16, so that no product or sum of two can saturate.
struct Int8 {
  using Vector = __m256i;
  using Scalar = std::int32_t;
  static constexpr bool kHoldsWeights = false;  // a product needs a register before it is added
  static constexpr std::ptrdiff_t kInputStep = kRows * 4;
  static constexpr std::ptrdiff_t kWeightStep = kColumns * 2;

  static Vector zero() { return _mm256_setzero_si256(); }
  static Vector add(Vector a, Vector b) { return _mm256_add_epi32(a, b); }
  static Vector weights(const char* address, std::ptrdiff_t part) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(address) + part));
  }
  static Vector input(const char* address, std::ptrdiff_t row) {
    std::int32_t pair = 0;
    std::memcpy(&pair, address + row * 4, sizeof(pair));
    return _mm256_set1_epi32(pair);
  }
  static Vector multiply(Vector sum, Vector a, Vector w) { return _mm256_add_epi32(sum, _mm256_madd_epi16(a, w)); }
  static Vector load(const std::int32_t* address) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(address));
  }
  static void store(std::int32_t* address, Vector value) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(address), value);
  }
};

template <typename Type, std::size_t kCount>
inline void add_unit(typename Type::Vector (&sums)[kCount][3], const char* input, const char* weights) {
  if constexpr (Type::kHoldsWeights) {
    typename Type::Vector columns[3];
    KPT_UNROLL for (std::ptrdiff_t part = 0; part < 3; ++part) columns[part] = Type::weights(weights, part);
    KPT_UNROLL for (std::size_t row = 0; row < kCount; ++row) {
      const auto factor = Type::input(input, static_cast<std::ptrdiff_t>(row));
      KPT_UNROLL for (std::size_t part = 0; part < 3; ++part) {
        sums[row][part] = Type::multiply(sums[row][part], factor, columns[part]);
      }
    }
  } else {
    KPT_UNROLL for (std::ptrdiff_t part = 0; part < 3; ++part) {
      const auto columns = Type::weights(weights, part);
      KPT_UNROLL for (std::size_t row = 0; row < kCount; ++row) {
        const auto factor = Type::input(input, static_cast<std::ptrdiff_t>(row));
        sums[row][part] = Type::multiply(sums[row][part], factor, columns);
      }
    }
  }
}

// One or two rows get two sets of sums, so that the chains of dependent additions fill the pipes.
template <typename Type, std::size_t kCount>
void multiply_rows(std::int64_t units, const char* input, const char* weights, typename Type::Scalar* tile,
                   bool accumulate) {
  constexpr std::size_t kSets = kCount <= 2 ? 2 : 1;
  typename Type::Vector sums[kSets][kCount][3];
  KPT_UNROLL for (std::size_t set = 0; set < kSets; ++set) {
    KPT_UNROLL for (std::size_t row = 0; row < kCount; ++row) {
      KPT_UNROLL for (std::size_t part = 0; part < 3; ++part) sums[set][row][part] = Type::zero();
    }
  }
  if constexpr (kSets == 2 || !Type::kHoldsWeights) {
    for (; units >= 2; units -= 2, input += 2 * Type::kInputStep, weights += 2 * Type::kWeightStep) {
      add_unit<Type, kCount>(sums[0], input, weights);
      add_unit<Type, kCount>(sums[1 % kSets], input + Type::kInputStep, weights + Type::kWeightStep);
    }
  }
  for (; units > 0; --units, input += Type::kInputStep, weights += Type::kWeightStep) {
    add_unit<Type, kCount>(sums[0], input, weights);
  }
  KPT_UNROLL for (std::size_t row = 0; row < kCount; ++row) {
    KPT_UNROLL for (std::size_t part = 0; part < 3; ++part) {
      auto sum = sums[0][row][part];
      if constexpr (kSets == 2) sum = Type::add(sum, sums[1][row][part]);
      typename Type::Scalar* target = tile + row * kColumns + part * 8;
      Type::store(target, accumulate ? Type::add(Type::load(target), sum) : sum);
    }
  }
}

template <typename Type>
void multiply(std::int64_t units, const void* input, const void* weights, void* tile, int rows, bool accumulate) {
  const auto* a = static_cast<const char*>(input);
  const auto* w = static_cast<const char*>(weights);
  auto* out = static_cast<typename Type::Scalar*>(tile);
  switch (rows) {
    case 1: return multiply_rows<Type, 1>(units, a, w, out, accumulate);
    case 2: return multiply_rows<Type, 2>(units, a, w, out, accumulate);
    case 3: return multiply_rows<Type, 3>(units, a, w, out, accumulate);
    default: return multiply_rows<Type, 4>(units, a, w, out, accumulate);
  }
}

}  // namespace

MatrixKernel avx2_kernel(LinearForm form) {
  MatrixKernel kernel;
  kernel.name = "float32 AVX2 4x24";
  kernel.rows = kRows;
  kernel.columns = kColumns;
  kernel.depth_block = 192;
  kernel.pack_input = &PackInput<Avx2>::float32<kRows>;
  kernel.multiply = &multiply<Float32>;
  kernel.finish = &Finish<Avx2, float>::run;
  if (form == LinearForm::kBfloat16) {
    kernel.name = "bfloat16 expanded to float32 AVX2 4x24";
    kernel.pack_input = &PackInput<Avx2>::rounded_float32<kRows>;
    kernel.expand = &ExpandWeights<Avx2, kColumns>::bfloat16;
  } else if (form == LinearForm::kWeightInt8) {
    kernel.name = "int8 weights expanded to float32 AVX2 4x24";
    kernel.expand = &ExpandWeights<Avx2, kColumns>::int8;
  } else if (form == LinearForm::kInt4) {
    kernel.name = "int4 expanded to float32 AVX2 4x24";
    kernel.expand = &ExpandWeights<Avx2, kColumns>::int4;
  } else if (form == LinearForm::kInt8) {
    kernel.name = "int8 AVX2 4x24";
    kernel.depth = 2;
    kernel.depth_block = 768;
    kernel.input_bytes = 2;
    kernel.weight_bytes = 1;
    kernel.scale_rows = &PackInput<Avx2>::int8_scales;
    kernel.quantize_row = &PackInput<Avx2>::quantize_row;
    kernel.pack_input = &PackInput<Avx2>::int8<kRows, 2, std::int16_t, 0>;
    kernel.multiply = &multiply<Int8>;
    kernel.finish = &Finish<Avx2, std::int32_t>::run;
  }
  return kernel;
}

}  // namespace kpt::kernels
