// Elements chosen by tensors of indices: aten.index and aten.gather, and the other way aten.index_put.
//
// Intensity: a copy behind up to three reads of indices, 0 FLOP. Addresses over five axes take some 380 instructions an
// element by gfx942's code (a division and four long products an axis; those of a quarter of the rate count four): 24
// for each byte of 32-bit elements and one index. An MI300X has 7.7 for each byte that it can move (5.3 TB/s): this
// arithmetic is the limit, and latency where elements are few. Elements are moved as bytes, so that one kernel serves
// all types of a size.
#pragma once

#include "kernels/gpu/vectors.h"

namespace kpt::gpu {

inline constexpr int kGatherAxes = 5;
inline constexpr int kGatherIndices = 3;

// An axis of the source that is walked by index.
struct GatherIndex {
  const Int64* data;
  Int64 strides[kGatherAxes];  // by axis of the output
  Int64 extent;                // of the source's axis
  Int64 source_stride;
};

struct GatherArgs {
  const void* source;
  void* output;         // without gaps; of scatter_*, whose source has none, where the axes below are
  Int32* out_of_range;  // set to 1 when an index is outside its axis; the element becomes zero. Null: not wanted
  GatherIndex indices[kGatherIndices];
  Int64 source_strides[kGatherAxes];  // by axis of the output; 0 on those that come from indices
  Int64 dims[kGatherAxes];            // of the output
  Int64 count;
  Int32 used;  // of the indices
  Int32 wrap;  // a negative index counts from the end
  Int32 threads;
};

// Where the item's element lies among those that indices choose from; -1 when an index is outside its axis.
KPT_DEVICE Int64 find_chosen(const GatherArgs& a, Int64 item) {
  Int64 place = 0;
  Int64 index_places[kGatherIndices] = {0, 0, 0};
  Int64 rest = item;
  KPT_UNROLL
  for (int axis = kGatherAxes - 1; axis >= 0; --axis) {
    const Int64 next = divide(rest, a.dims[axis]);
    const Int64 step = rest - next * a.dims[axis];
    place += step * a.source_strides[axis];
    KPT_UNROLL
    for (int i = 0; i < kGatherIndices; ++i) index_places[i] += step * a.indices[i].strides[axis];
    rest = next;
  }
  bool inside = true;
  KPT_UNROLL
  for (int i = 0; i < kGatherIndices; ++i) {
    if (i >= a.used) continue;
    Int64 index = a.indices[i].data[index_places[i]];
    if (a.wrap != 0 && index < 0) index += a.indices[i].extent;
    inside = inside && index >= 0 && index < a.indices[i].extent;
    if (inside) place += index * a.indices[i].source_stride;
  }
  if (!inside && a.out_of_range != nullptr) *a.out_of_range = 1;
  return inside ? place : -1;
}

template <typename Piece, typename L>
KPT_DEVICE void gather_elements(const GatherArgs& a, L& lane) {
  const Int64 item = lane.block() * a.threads + lane.thread();
  if (item >= a.count) return;
  const Int64 place = find_chosen(a, item);
  static_cast<Piece*>(a.output)[item] = place >= 0 ? static_cast<const Piece*>(a.source)[place] : Piece{};
}

// The other way: the source has no gaps, and indices choose places of the output.
template <typename Piece, typename L>
KPT_DEVICE void scatter_elements(const GatherArgs& a, L& lane) {
  const Int64 item = lane.block() * a.threads + lane.thread();
  if (item >= a.count) return;
  const Int64 place = find_chosen(a, item);
  if (place >= 0) static_cast<Piece*>(a.output)[place] = static_cast<const Piece*>(a.source)[item];
}

// X(name, arguments, most threads in a block, body)
#define KPT_GATHER_KERNELS(X)                               \
  X(gather_b64, GatherArgs, 256, gather_elements<Int64>)    \
  X(gather_b32, GatherArgs, 256, gather_elements<UInt32>)   \
  X(gather_b16, GatherArgs, 256, gather_elements<UInt16>)   \
  X(gather_b8, GatherArgs, 256, gather_elements<UInt8>)     \
  X(scatter_b64, GatherArgs, 256, scatter_elements<Int64>)  \
  X(scatter_b32, GatherArgs, 256, scatter_elements<UInt32>) \
  X(scatter_b16, GatherArgs, 256, scatter_elements<UInt16>) \
  X(scatter_b8, GatherArgs, 256, scatter_elements<UInt8>)

}  // namespace kpt::gpu
