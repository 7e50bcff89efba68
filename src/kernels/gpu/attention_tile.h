// What attention is given, and its keys and values on their way to LDS; attention_forward.h has the kernel.
#pragma once

#include "kernels/gpu/mask.h"
#include "kernels/gpu/matrix_tile.h"

namespace kpt::gpu {

struct AttentionStrides {
  Int64 batch, head, row;  // elements
};

struct AttentionArgs {
  const void* query;  // [batches, heads, queries, D]
  const void* key;    // [batches, groups, keys, D]: every `heads_each` heads share one
  const void* value;
  const void* mask;  // [batches, heads, queries, keys], keys without gaps
  void* output;      // [batches, heads, queries, D]
  AttentionStrides query_strides, key_strides, value_strides, mask_strides, output_strides;
  Int64 heads, heads_each;
  Int64 queries, keys;
  Int64 query_tiles;    // blocks of one head
  Int64 causal_offset;  // a query sees keys up to its own index plus this
  float scale;
  Int32 causal;
  MaskKind mask_kind;
  Int32 threads;  // 256
};

inline constexpr int kAttentionQueries = 128;  // of a block
inline constexpr int kAttentionThreads = 256;
inline constexpr int kAttentionTile = 4096;                 // elements of the keys in a buffer, and of the values
inline constexpr int kAttentionWords = kAttentionTile / 2;  // of either
inline constexpr int kAttentionStaged = 2;                  // pieces that a thread moves of either

// Pieces of keys and values on their way to LDS. A thread's two pieces of values are of two neighbouring keys.
struct AttentionStage {
  UInt32 key[kAttentionStaged][kPieceWords];
  UInt32 value[kAttentionStaged][kPieceWords];
};

// The pair of keys and the piece of 8 columns whose values a thread moves. Two threads read 32 bytes of a key; 32 of
// them write words of 16 pairs to two rows.
template <int D>
struct ValuePart {
  static constexpr int kPairs = kAttentionTile / D / 2;
  Int32 pair, piece;
  KPT_DEVICE explicit ValuePart(Int32 thread)
      : pair(thread / 2 % kPairs), piece(thread % 2 + 2 * (thread / (2 * kPairs))) {}
};

template <typename T, int D>
KPT_DEVICE void load_stage(const T* keys, const T* values, const AttentionArgs& a, Int32 first_key, Int32 thread,
                           AttentionStage& stage) {
  const auto count = static_cast<Int32>(a.keys);
  const ValuePart<D> part(thread);
  KPT_UNROLL
  for (int i = 0; i < kAttentionStaged; ++i) {
    const Int32 item = thread + i * kAttentionThreads;
    const Int32 key = first_key + item / (D / 8);
    load_piece<T>(keys + key * a.key_strides.row, item % (D / 8) * 8, key < count ? D : 0, true, stage.key[i]);
    const Int32 other = first_key + 2 * part.pair + i;
    load_piece<T>(values + other * a.value_strides.row, part.piece * 8, other < count ? D : 0, true, stage.value[i]);
  }
}

// The lower halves of two words as one, and their upper halves.
KPT_DEVICE UInt32 lower_halves(UInt32 first, UInt32 second) { return (first & 0xffffU) | (second << 16U); }
KPT_DEVICE UInt32 upper_halves(UInt32 first, UInt32 second) { return (first >> 16U) | (second & 0xffff0000U); }

template <int D>
KPT_DEVICE void store_stage(UInt32* buffer, Int32 thread, const AttentionStage& stage) {
  constexpr int kValuePieces = kAttentionTile / D / 8;
  KPT_UNROLL
  for (int i = 0; i < kAttentionStaged; ++i) {
    const Int32 item = thread + i * kAttentionThreads;
    store_values<kPieceWords>(buffer + tile_place<D / 8>(item / (D / 8), item % (D / 8)), stage.key[i]);
  }
  const ValuePart<D> part(thread);
  UInt32* values = buffer + kAttentionWords + part.pair % 4;
  KPT_UNROLL
  for (int i = 0; i < kPieceWords; ++i) {
    const Int32 column = part.piece * 8 + 2 * i;
    values[tile_place<kValuePieces>(column, part.pair / 4)] = lower_halves(stage.value[0][i], stage.value[1][i]);
    values[tile_place<kValuePieces>(column + 1, part.pair / 4)] = upper_halves(stage.value[0][i], stage.value[1][i]);
  }
}

}  // namespace kpt::gpu
