// Weights of 8 and 4 bits in a GPU kernel's registers.
//
// They become floats without a conversion: their bits in the mantissa of a power of two, which is then subtracted. Both
// steps are exact and take an instruction each; conversions have a quarter of that rate on some devices.
#pragma once

#include "kernels/gpu/vectors.h"

namespace kpt::gpu {

// The unsigned field of `kBits` from bit `kBit` on, less kZero. The field must end below bit 23.
template <int kBit, int kBits, int kZero>
KPT_DEVICE float field_of(UInt32 word) {
  constexpr UInt32 kMask = ((1U << static_cast<unsigned>(kBits)) - 1U) << static_cast<unsigned>(kBit);
  constexpr UInt32 kPower = static_cast<UInt32>(127 + 23 - kBit) << 23U;  // where the field counts ones
  return float_of((word & kMask) | kPower) - (power_of_two(23 - kBit) + static_cast<float>(kZero));
}

// One scale for a column, which is left to the end.
struct WeightInt8 {
  static constexpr int kPerWord = 4;
  static constexpr bool kGroups = false;
  KPT_DEVICE static void unpack(UInt32 word, float (&values)[kPerWord]) {
    const UInt32 codes = word ^ 0x80808080U;  // the numbers and 128
    values[0] = field_of<0, 8, 128>(codes);
    values[1] = field_of<8, 8, 128>(codes);
    values[2] = field_of<0, 8, 128>(codes >> 16U);
    values[3] = field_of<8, 8, 128>(codes >> 16U);
  }
  KPT_DEVICE static float element(const void* weight, const float* /*scale*/, Int64 /*group*/, Int64 place) {
    return static_cast<float>(static_cast<const Int8*>(weight)[place]);
  }
};

// A scale for each group of a column, which belongs to the weight. Groups do not cross columns.
struct WeightInt4 {
  static constexpr int kPerWord = 8;
  static constexpr bool kGroups = true;
  KPT_DEVICE static void unpack(UInt32 word, float (&values)[kPerWord]) {
    const UInt32 upper = word >> 16U;
    values[0] = field_of<0, 4, 8>(word);
    values[1] = field_of<4, 4, 8>(word);
    values[2] = field_of<8, 4, 8>(word);
    values[3] = field_of<12, 4, 8>(word);
    values[4] = field_of<0, 4, 8>(upper);
    values[5] = field_of<4, 4, 8>(upper);
    values[6] = field_of<8, 4, 8>(upper);
    values[7] = field_of<12, 4, 8>(upper);
  }
  KPT_DEVICE static float code(UInt32 byte, bool odd) {
    return static_cast<float>(static_cast<Int32>(odd ? byte >> 4U : byte & 15U) - 8);
  }
  KPT_DEVICE static float element(const void* weight, const float* scale, Int64 group, Int64 place) {
    const UInt32 byte = static_cast<const UInt8*>(weight)[place / 2];
    return code(byte, place % 2 != 0) * scale[divide(place, group)];
  }
};

}  // namespace kpt::gpu
