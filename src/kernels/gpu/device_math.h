// Functions that every target computes alike. AMD's are compiled without a library of mathematics, so tanh and erfc are
// written here; exp and sqrt are instructions or the compiler's own.
#pragma once

#include "kernels/gpu/numbers.h"

namespace kpt::gpu {

#if defined(KPT_SIMT_CUDA)
KPT_DEVICE float exponential(float x) { return expf(x); }
KPT_DEVICE float power_2(float x) { return exp2f(x); }
KPT_DEVICE float inverse_root(float x) { return rsqrtf(x); }
#else
KPT_DEVICE float exponential(float x) { return __builtin_expf(x); }
KPT_DEVICE float power_2(float x) { return __builtin_exp2f(x); }
KPT_DEVICE float inverse_root(float x) { return 1.0F / __builtin_sqrtf(x); }
#endif

KPT_DEVICE float magnitude_of(float x) { return __builtin_fabsf(x); }
KPT_DEVICE float infinity() { return __builtin_inff(); }

// For x >= 0, relative error below 1e-6 up to x = 5 and 1e-5 beyond: t · exp(polynomial of t - x²), t = 1 / (1 + x/2).
// The polynomial interpolates log(erfc(x)) + x² - log(t) at Chebyshev's points of t in [1/8, 1].
KPT_DEVICE float positive_erfc(float x) {
  const float t = 1.0F / (1.0F + 0.5F * x);
  float p = 0.165509894F;
  p = p * t - 0.791463077F;
  p = p * t + 1.41320312F;
  p = p * t - 1.03165746F;
  p = p * t + 0.191462308F;
  p = p * t - 0.139631480F;
  p = p * t + 0.0811646059F;
  p = p * t + 0.377223402F;
  p = p * t + 0.999686360F;
  p = p * t - 1.26549757F;
  return t * exponential(p - x * x);
}

KPT_DEVICE float hyperbolic_tangent(float x) {
  const float size = magnitude_of(x);
  if (size < 0.625F) {  // here (1 - e) would cancel
    const float square = x * x;
    float p = -0.00614272011F;
    p = p * square + 0.0210349113F;
    p = p * square - 0.0538608432F;
    p = p * square + 0.133328587F;
    p = p * square - 0.333333313F;
    return x + x * square * p;
  }
  const float e = exponential(-2.0F * size);
  const float result = (1.0F - e) / (1.0F + e);
  return x < 0 ? -result : result;
}

// The series of atanh in double: x = 2^e · m, log(m) = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172.
KPT_DEVICE float logarithm(float x) {
  if (!(x > 0)) return x == 0 ? -infinity() : float_of(0x7fc00000U);
  if (x == infinity()) return x;
  Int32 exponent = 0;
  if (x < 1.17549435e-38F) {  // below the normal numbers
    x *= 16777216.0F;
    exponent = -24;
  }
  const UInt32 bits = bits_of(x);
  // The mantissa lies in [0.7, 1.4): the exponent changes at 0x3f3504f3, the root of a half.
  const UInt32 above = bits - 0x3f3504f3U;
  exponent += static_cast<Int32>(above) >> 23;
  const double m = float_of((above & 0x007fffffU) + 0x3f3504f3U);
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 1.0 / 13.0;
  p = p * z + 1.0 / 11.0;
  p = p * z + 1.0 / 9.0;
  p = p * z + 1.0 / 7.0;
  p = p * z + 1.0 / 5.0;
  p = p * z + 1.0 / 3.0;
  return static_cast<float>(static_cast<double>(exponent) * 0.69314718055994531 + 2.0 * s * (1.0 + z * p));
}

// In the order of ir::Activation, so that callers convert by value.
enum class Activation : Int32 {
  kNone,
  kRelu,
  kGelu,      // x Φ(x)
  kGeluTanh,  // its usual approximation by tanh
  kSilu,
  kSigmoid,
  kTanh,
  kHardswish,
  kHardsigmoid,
  kRelu6
};

KPT_DEVICE float bounded(float x, float low, float high) { return x < low ? low : (x > high ? high : x); }

// NaN stays NaN; infinities go to the function's limits.
KPT_DEVICE float activate(Activation activation, float x) {
  switch (activation) {
    case Activation::kRelu: return x < 0 ? 0.0F : x;
    case Activation::kGelu: {
      if (x < -14.5F) return 0.0F;
      const float tail = positive_erfc(0.707106781F * magnitude_of(x));
      return 0.5F * x * (x < 0 ? tail : 2.0F - tail);
    }
    case Activation::kGeluTanh: {
      if (x < -25.0F) return 0.0F;
      return x / (1.0F + exponential(-1.59576912F * (x + 0.044715F * x * x * x)));
    }
    case Activation::kSilu: return x < -104.0F ? 0.0F : x / (1.0F + exponential(-x));
    case Activation::kSigmoid: return 1.0F / (1.0F + exponential(-x));
    case Activation::kTanh: return hyperbolic_tangent(x);
    case Activation::kHardswish: return x <= -3.0F ? 0.0F : x * bounded(x + 3.0F, 0.0F, 6.0F) * (1.0F / 6.0F);
    case Activation::kHardsigmoid: return bounded(x + 3.0F, 0.0F, 6.0F) * (1.0F / 6.0F);
    case Activation::kRelu6: return bounded(x, 0.0F, 6.0F);
    case Activation::kNone: break;
  }
  return x;
}

}  // namespace kpt::gpu
