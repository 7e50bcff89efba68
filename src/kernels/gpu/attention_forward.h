// Attention in one pass on AMD's matrix cores, for every unit: softmax(scale · query · keyᵀ + mask) · value.
//
// A block of 256 threads takes 128 queries of one head: 32 of a wave of 64, 16 of a wave of 32. Keys and values come in
// tiles of 16 KiB (64 of them, or 32 of 128 columns) into two buffers of LDS: while one is used, the next is on its way
// in registers. Scores stay in registers: greatest and sum of each query are kept in float32 and what was summed before
// is scaled when the greatest changes.
//
// Both products are made turned: scoresᵀ = key · queryᵀ, outputᵀ = valueᵀ · weightsᵀ. A lane's scores are then of one
// query, and lie as the next product wants its operand (on RDNA3 after an exchange between the halves of the wave).
// Values are turned on their way into LDS, two keys to a word.
#pragma once

#include "kernels/gpu/attention_scores.h"
#include "kernels/gpu/attention_tile.h"

namespace kpt::gpu {

// Operands of values that are read before the first of them is used. RDNA3's with 1024 registers in a SIMD spill with
// four of head size 128.
#if defined(KPT_SIMT_HIP) && KPT_WAVE == 32 && KPT_SIMD_REGISTERS < 1536
inline constexpr int kValuesAhead = 2;
#else
inline constexpr int kValuesAhead = 4;
#endif

template <typename Unit, typename T, int D>
struct AttentionShape {
  static constexpr int kKeys = kAttentionTile / D;  // of a tile
  static constexpr int kKeyTiles = kKeys / 16;      // of 16 keys
  static constexpr int kColumnTiles = D / 16;       // of 16 columns of the values
  static constexpr int kKeyPieces = D / 8;          // in a row of keys
  static constexpr int kValuePieces = kKeys / 8;    // in a row of turned values
  static constexpr int kSteps = kKeyPieces / Fragment<Unit, T>::kPieces;
  static constexpr int kQueryTiles = Unit::kWave == 64 ? 2 : 1;  // of 16 queries in a wave
  static constexpr int kWords = Unit::template kWords<T>;        // of an operand
  // Tiles of 16 keys whose weights make one operand.
  static constexpr int kJoined = Unit::kShare * kWords / 8;
  static_assert(kKeyTiles % kJoined == 0);
};

// Weights of `kJoined` tiles from `first` on as the operand of the second product.
template <typename Unit, typename T, int Joined, int Tiles, int N, typename L>
KPT_DEVICE void weight_operand(L& lane, const float (&weights)[Tiles][Unit::kSums], int first, UInt32 (&words)[N]) {
  constexpr int kPairs = Unit::kSums / 2;
  UInt32 own[Joined * kPairs];
  KPT_UNROLL
  for (int i = 0; i < Joined * kPairs; ++i) {
    const int r = i % kPairs * 2;
    own[i] = static_cast<UInt32>(from_float<T>(weights[first + i / kPairs][r]).bits) |
             static_cast<UInt32>(from_float<T>(weights[first + i / kPairs][r + 1]).bits) << 16U;
  }
  if constexpr (Unit::kConsecutive) {
    static_assert(N == Joined * kPairs);
    KPT_UNROLL
    for (int i = 0; i < N; ++i) words[i] = own[i];
  } else {
    // One half of the wave has the even keys, the other the odd ones.
    static_assert(N == 2 * kPairs);
    const bool odd = lane.lane() / 16 != 0;
    KPT_UNROLL
    for (int i = 0; i < kPairs; ++i) {
      const UInt32 other = bits_of(lane.shuffle_xor(float_of(own[i]), 16));
      const UInt32 even_keys = odd ? other : own[i];
      const UInt32 odd_keys = odd ? own[i] : other;
      words[2 * i] = lower_halves(even_keys, odd_keys);
      words[2 * i + 1] = upper_halves(even_keys, odd_keys);
    }
  }
}

// Turned values of the same keys in the same order, for the column of the lane.
template <typename Unit, int Pieces, int Joined, int N, typename L>
KPT_DEVICE void value_operand(const UInt32* values, Int32 column, int first, L& lane, UInt32 (&words)[N]) {
  constexpr int kEach = N / Joined;                                       // words of a tile
  constexpr int kRead = kEach < kPieceWords ? kEach : kPieceWords;        // at once
  const Int32 before = Unit::kShare == 1 ? 0 : lane.lane() / 16 * kEach;  // words of the tile in other lanes
  KPT_UNROLL
  for (int i = 0; i < N / kRead; ++i) {
    const Int32 word = 8 * (first + i * kRead / kEach) + before + i * kRead % kEach;
    UInt32 read[kRead];
    load_values<kRead>(values + tile_place<Pieces>(column, word / kPieceWords) + word % kPieceWords, read);
    KPT_UNROLL
    for (int w = 0; w < kRead; ++w) words[i * kRead + w] = read[w];
  }
}

template <typename Unit, typename T, int D>
struct AttentionState {
  using Shape = AttentionShape<Unit, T, D>;
  Fragment<Unit, T> queries[Shape::kQueryTiles][Shape::kSteps];
  AttentionQuery rows[Shape::kQueryTiles];
  float outputs[Shape::kQueryTiles][Shape::kColumnTiles][Unit::kSums];
};

template <typename Unit, typename T, int D, typename L>
KPT_DEVICE void attend(const AttentionArgs& a, const UInt32* buffer, Int32 first_key, L& lane,
                       AttentionState<Unit, T, D>& state) {
  using Shape = AttentionShape<Unit, T, D>;
  float scores[Shape::kQueryTiles][Shape::kKeyTiles][Unit::kSums] = {};
  KPT_UNROLL
  for (int t = 0; t < Shape::kKeyTiles; ++t) {
    KPT_UNROLL
    for (int step = 0; step < Shape::kSteps; ++step) {
      Fragment<Unit, T> keys;
      read_fragment<Shape::kKeyPieces>(buffer, 16 * t, step, lane, keys);
      KPT_UNROLL
      for (int q = 0; q < Shape::kQueryTiles; ++q) {
        multiply_fragments<Unit, T>(lane, keys, state.queries[q][step], scores[q][t]);
      }
      if (step % 4 == 3 || step + 1 == Shape::kSteps) keep_order();
    }
  }
  KPT_UNROLL
  for (int q = 0; q < Shape::kQueryTiles; ++q) {
    const float factor = weigh<Unit, T>(a, first_key, lane, state.rows[q], scores[q]);
    KPT_UNROLL
    for (int j = 0; j < Shape::kColumnTiles; ++j) {
      KPT_UNROLL
      for (int r = 0; r < Unit::kSums; ++r) state.outputs[q][j][r] *= factor;
    }
  }
  KPT_UNROLL
  for (int t = 0; t < Shape::kKeyTiles; t += Shape::kJoined) {
    UInt32 weights[Shape::kQueryTiles][Shape::kWords];
    KPT_UNROLL
    for (int q = 0; q < Shape::kQueryTiles; ++q) {
      weight_operand<Unit, T, Shape::kJoined>(lane, scores[q], t, weights[q]);
    }
    KPT_UNROLL
    for (int j = 0; j < Shape::kColumnTiles; ++j) {
      UInt32 values[Shape::kWords];
      value_operand<Unit, Shape::kValuePieces, Shape::kJoined>(buffer + kAttentionWords, 16 * j + lane.lane() % 16, t,
                                                               lane, values);
      KPT_UNROLL
      for (int q = 0; q < Shape::kQueryTiles; ++q) {
        multiply_16x16<Unit, T>(lane, values, weights[q], state.outputs[q][j]);
      }
      if (j % kValuesAhead == kValuesAhead - 1) keep_order();
    }
  }
}

// Where the lane's query `tile` is.
template <typename Unit, typename T, int D, typename L>
KPT_DEVICE Int64 query_of(Int64 first_query, int tile, L& lane) {
  constexpr int kTiles = AttentionShape<Unit, T, D>::kQueryTiles;
  return first_query + (lane.wave() * kTiles + tile) * 16 + lane.lane() % 16;
}

template <typename Unit, typename T, int D, typename L>
KPT_DEVICE void begin_queries(const AttentionArgs& a, Int64 batch, Int64 head, Int64 first_query, L& lane,
                              AttentionState<Unit, T, D>& state) {
  using Shape = AttentionShape<Unit, T, D>;
  using Part = Fragment<Unit, T>;
  constexpr int kEach = Part::kWords / kPieceWords;
  const T* queries = static_cast<const T*>(a.query) + batch * a.query_strides.batch + head * a.query_strides.head;
  const Int32 group = Unit::kShare == 1 ? 0 : lane.lane() / 16;
  KPT_UNROLL
  for (int q = 0; q < Shape::kQueryTiles; ++q) {
    const Int64 query = query_of<Unit, T, D>(first_query, q, lane);
    const bool there = query < a.queries;
    KPT_UNROLL
    for (int i = 0; i < Shape::kSteps * kEach; ++i) {
      const Int64 piece = i / kEach * Part::kPieces + group * kEach + i % kEach;
      UInt32 words[kPieceWords];
      load_piece<T>(queries + query * a.query_strides.row, piece * 8, there ? D : 0, true, words);
      KPT_UNROLL
      for (int w = 0; w < kPieceWords; ++w) {
        state.queries[q][i / kEach].words[i % kEach * kPieceWords + w] = words[w];
      }
    }
    AttentionQuery& row = state.rows[q];
    row.mask_place =
        batch * a.mask_strides.batch + head * a.mask_strides.head + (there ? query : 0) * a.mask_strides.row;
    Int64 visible = there ? a.keys : 0;
    if (a.causal != 0 && query + a.causal_offset + 1 < visible) visible = query + a.causal_offset + 1;
    row.visible = visible < 0 ? 0 : static_cast<Int32>(visible);
    row.greatest = -infinity();
    row.total = 0;
    KPT_UNROLL
    for (int j = 0; j < Shape::kColumnTiles; ++j) {
      KPT_UNROLL
      for (int r = 0; r < Unit::kSums; ++r) state.outputs[q][j][r] = 0;
    }
  }
}

template <typename Unit, typename T, int D, typename L>
KPT_DEVICE void store_queries(const AttentionArgs& a, Int64 batch, Int64 head, Int64 first_query, L& lane,
                              const AttentionState<Unit, T, D>& state) {
  using Shape = AttentionShape<Unit, T, D>;
  T* outputs = static_cast<T*>(a.output) + batch * a.output_strides.batch + head * a.output_strides.head;
  KPT_UNROLL
  for (int q = 0; q < Shape::kQueryTiles; ++q) {
    const float total = query_sum(lane, state.rows[q].total);
    const float factor = total == 0 ? 0.0F : 1.0F / total;
    const Int64 query = query_of<Unit, T, D>(first_query, q, lane);
    if (query >= a.queries) continue;
    T* output = outputs + query * a.output_strides.row;
    KPT_UNROLL
    for (int j = 0; j < Shape::kColumnTiles; ++j) {
      float values[Unit::kSums];
      KPT_UNROLL
      for (int r = 0; r < Unit::kSums; ++r) values[r] = state.outputs[q][j][r] * factor;
      if constexpr (Unit::kConsecutive) {
        store_floats<Unit::kSums>(output + 16 * j + Unit::row_of(lane.lane(), 0), values);
      } else {
        KPT_UNROLL
        for (int r = 0; r < Unit::kSums; ++r) {
          output[16 * j + Unit::row_of(lane.lane(), r)] = from_float<T>(values[r]);
        }
      }
    }
  }
}

template <typename Unit, typename T, int D, typename L>
KPT_DEVICE void attention(const AttentionArgs& a, L& lane) {
  KPT_SHARED(lane, UInt32, buffers, 4 * kAttentionWords);
  constexpr int kKeys = AttentionShape<Unit, T, D>::kKeys;
  const Int64 outer = divide(lane.block(), a.query_tiles);
  const Int64 first_query = (lane.block() - outer * a.query_tiles) * kAttentionQueries;
  const Int64 batch = divide(outer, a.heads);
  const Int64 head = outer - batch * a.heads;
  const Int64 group = divide(head, a.heads_each);
  const T* keys = static_cast<const T*>(a.key) + batch * a.key_strides.batch + group * a.key_strides.head;
  const T* values = static_cast<const T*>(a.value) + batch * a.value_strides.batch + group * a.value_strides.head;
  AttentionState<Unit, T, D> state;
  begin_queries<Unit, T, D>(a, batch, head, first_query, lane, state);
  Int64 end = a.keys;  // no query of the block sees this key or later ones; fewer than 2^30
  if (a.causal != 0) {
    const Int64 last = first_query + kAttentionQueries < a.queries ? first_query + kAttentionQueries : a.queries;
    end = last + a.causal_offset < end ? last + a.causal_offset : end;
  }
  AttentionStage stage;
  load_stage<T, D>(keys, values, a, 0, lane.thread(), stage);
  Int32 turn = 0;
  for (Int32 first_key = 0; first_key < end; first_key += kKeys) {
    UInt32* buffer = buffers + turn * 2 * kAttentionWords;
    store_stage<D>(buffer, lane.thread(), stage);
    lane.barrier();
    load_stage<T, D>(keys, values, a, first_key + kKeys, lane.thread(), stage);
    attend<Unit, T, D>(a, buffer, first_key, lane, state);
    turn ^= 1;
  }
  store_queries<Unit, T, D>(a, batch, head, first_query, lane, state);
}

// X(name, arguments, most threads in a block, body)
#define KPT_ATTENTION_KERNELS_OF(X, Unit, unit)                                  \
  X(attention_##unit##_f16_64, AttentionArgs, 256, attention<Unit, Half, 64>)    \
  X(attention_##unit##_f16_128, AttentionArgs, 256, attention<Unit, Half, 128>)  \
  X(attention_##unit##_bf16_64, AttentionArgs, 256, attention<Unit, BFloat, 64>) \
  X(attention_##unit##_bf16_128, AttentionArgs, 256, attention<Unit, BFloat, 128>)

}  // namespace kpt::gpu
