// Which accesses of a row a lane of a GPU kernel has.
#pragma once

#include "kernels/gpu/simt.h"

namespace kpt::gpu {

// The accesses of a row that a lane has, C of them, a wave's width apart, so that a wave's accesses lie side by side
// and one address serves all of them.
template <int C, typename L>
struct RowPart {
  Int32 first, count;
  KPT_DEVICE RowPart(L& lane, Int32 wave_of_row, Int64 accesses)
      : first(wave_of_row * C * L::kWave + lane.lane()), count(static_cast<Int32>(accesses)) {}
  // In 64 bits: addresses of all passes are then that of the first and a constant.
  KPT_DEVICE Int64 access(int pass) const { return Int64{first} + pass * L::kWave; }
  KPT_DEVICE bool has(int pass) const { return first + pass * L::kWave < count; }
  // How many of the row's accesses the wave has.
  KPT_DEVICE Int32 of_wave(L& lane) const {
    const Int32 left = count - (first - lane.lane());
    return left < 0 ? 0 : (left < C * L::kWave ? left : C * L::kWave);
  }
};

}  // namespace kpt::gpu
