// Matrices on their way to the matrix cores: from memory in pieces of 16 bytes to LDS, from there as operands.
//
// A tile in LDS has rows without gaps. The pieces of a row change places by the row's number, so that eight lanes which
// read one piece of eight rows use different banks, and so do, where rows have at least 128 bytes, lanes which write to
// rows that are eight apart. Rows that are 16 apart turn alike: one address in a register serves all tiles of 16 rows.
#pragma once

#include "kernels/gpu/matrix_lane.h"
#include "kernels/gpu/vectors.h"

namespace kpt::gpu {

inline constexpr int kPieceWords = 4;

// Elements as bits, by their size.
template <int Bytes>
struct BitsOf {
  using Type = UInt16;
};
template <>
struct BitsOf<1> {
  using Type = UInt8;
};

template <typename T>
inline constexpr int kPieceElements = static_cast<int>(16 / sizeof(T));

// Keeps the compiler from moving loads of LDS to before this point: it would run out of registers for them.
KPT_DEVICE void keep_order() {
#if defined(KPT_SIMT_HIP)
  __builtin_amdgcn_sched_barrier(0);
#endif
}

// Where a piece of a row begins in a tile whose rows have `Pieces`, in words.
template <int Pieces>
KPT_DEVICE Int32 tile_place(Int32 row, Int32 piece) {
  static_assert(Pieces == 4 || Pieces == 8 || Pieces == 16);
  const Int32 turn = Pieces == 4 ? row / 2 % 4 : (row ^ row / 8 % 2 * 4) % 8;
  return (row * Pieces + (piece ^ turn)) * kPieceWords;
}

// The piece that begins at `first` of a row with `count` elements; zeros beyond its end. `vectors`: rows begin at
// multiples of 16 bytes and `count` is a whole number of pieces.
template <typename T>
KPT_DEVICE void load_piece(const void* row, Int64 first, Int64 count, bool vectors, UInt32 (&piece)[kPieceWords]) {
  using Bits = typename BitsOf<sizeof(T)>::Type;
  KPT_UNROLL
  for (int i = 0; i < kPieceWords; ++i) piece[i] = 0;
  if (first >= count) return;
  const Bits* source = static_cast<const Bits*>(row) + first;
  if (vectors) {
    load_values<kPieceWords>(reinterpret_cast<const UInt32*>(source), piece);
    return;
  }
  // From the last element on, each moves the others up: little code for what is not meant to be fast.
  constexpr auto kBits = static_cast<unsigned>(8 * sizeof(T));
  const Int64 left = count - first;
  KPT_ROLLED
  for (Int64 i = left < kPieceElements<T> ? left - 1 : kPieceElements<T> - 1; i >= 0; --i) {
    KPT_UNROLL
    for (int w = kPieceWords - 1; w > 0; --w) piece[w] = (piece[w] << kBits) | (piece[w - 1] >> (32U - kBits));
    piece[0] = (piece[0] << kBits) | source[i];
  }
}

// Words of a lane's operand that belong to one reading of LDS, and the pieces that this reading takes of a row: the
// lanes that share the depth take neighbouring pieces.
template <typename Unit, typename T>
struct Fragment {
  static constexpr int kWords = Unit::template kWords<T> > kPieceWords ? Unit::template kWords<T> : kPieceWords;
  static constexpr int kPieces = Unit::kShare * kWords / kPieceWords;
  static constexpr int kInstructions = kWords / Unit::template kWords<T>;
  UInt32 words[kWords];
};

// The lane's part of step `step` of row `row` (that of lane 0).
template <int Pieces, typename Unit, typename T, typename L>
KPT_DEVICE void read_fragment(const UInt32* tile, Int32 row, int step, L& lane, Fragment<Unit, T>& fragment) {
  using Part = Fragment<Unit, T>;
  constexpr int kEach = Part::kWords / kPieceWords;
  const Int32 group = Unit::kShare == 1 ? 0 : lane.lane() / 16;
  KPT_UNROLL
  for (int i = 0; i < kEach; ++i) {
    UInt32 piece[kPieceWords];
    load_values<kPieceWords>(
        tile + tile_place<Pieces>(row + lane.lane() % 16, step * Part::kPieces + group * kEach + i), piece);
    KPT_UNROLL
    for (int w = 0; w < kPieceWords; ++w) fragment.words[i * kPieceWords + w] = piece[w];
  }
}

template <typename Unit, typename T, typename L, typename Sum>
KPT_DEVICE void multiply_fragments(L& lane, const Fragment<Unit, T>& rows, const Fragment<Unit, T>& columns,
                                   Sum (&sums)[Unit::kSums]) {
  constexpr int kEach = Unit::template kWords<T>;
  KPT_UNROLL
  for (int part = 0; part < Fragment<Unit, T>::kInstructions; ++part) {
    UInt32 a[kEach], b[kEach];
    KPT_UNROLL
    for (int i = 0; i < kEach; ++i) {
      a[i] = rows.words[part * kEach + i];
      b[i] = columns.words[part * kEach + i];
    }
    multiply_16x16<Unit, T>(lane, a, b, sums);
  }
}

}  // namespace kpt::gpu
