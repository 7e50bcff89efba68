// Rows of a table, gathered by their numbers.
//
// Intensity: a copy, 0 FLOP. Addresses take 75 instructions a piece by gfx942's code, 2.3 for each byte that is read or
// written in pieces of 16. An MI300X has 7.7 for each byte that it can move (5.3 TB/s): memory is the limit (rows of a
// kilobyte and more; shorter ones are bound by the latency of reading numbers before rows, and pieces of 4 bytes and
// less by addresses). Rows are copied as bytes, so one kernel serves all types.
#pragma once

#include "kernels/gpu/vectors.h"

namespace kpt::gpu {

// A row is `units` pieces of the kernel's size.
struct EmbeddingArgs {
  const void* table;
  const void* ids;
  void* output;         // rows without gaps
  Int32* out_of_range;  // set to 1 when an id is outside the table, whose row becomes zeros; null: not wanted
  Int64 count;
  Int64 table_rows;
  Int64 table_stride;  // pieces between rows of the table
  Int64 units;
  Int32 threads;
};

struct alignas(16) Piece16 {
  UInt32 words[4];
};

template <typename Piece, typename Id, typename L>
KPT_DEVICE void gather_rows(const EmbeddingArgs& a, L& lane) {
  const Int64 item = lane.block() * a.threads + lane.thread();
  if (item >= a.count * a.units) return;
  const Int64 row = divide(item, a.units);
  const Int64 unit = item - row * a.units;
  const Int64 id = static_cast<const Id*>(a.ids)[row];
  Piece* const target = static_cast<Piece*>(a.output) + item;
  // Two stores: one of a piece that is a row's or zero becomes an array, which AMD's compiler then keeps in LDS.
  if (id >= 0 && id < a.table_rows) {
    *target = static_cast<const Piece*>(a.table)[id * a.table_stride + unit];
    return;
  }
  *target = Piece{};
  if (unit == 0 && a.out_of_range != nullptr) *a.out_of_range = 1;
}

// X(name, arguments, most threads in a block, body)
#define KPT_EMBEDDING_KERNELS_OF(X, Id, id)                            \
  X(embedding_b128_##id, EmbeddingArgs, 256, gather_rows<Piece16, Id>) \
  X(embedding_b32_##id, EmbeddingArgs, 256, gather_rows<UInt32, Id>)   \
  X(embedding_b16_##id, EmbeddingArgs, 256, gather_rows<UInt16, Id>)   \
  X(embedding_b8_##id, EmbeddingArgs, 256, gather_rows<UInt8, Id>)
#define KPT_EMBEDDING_KERNELS(X)          \
  KPT_EMBEDDING_KERNELS_OF(X, Int32, i32) \
  KPT_EMBEDDING_KERNELS_OF(X, Int64, i64)

}  // namespace kpt::gpu
