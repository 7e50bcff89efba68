// Kernel calls as text, for tools in other languages: "norm dtype=float16 rows=3 input=0x7f00…" → its launches.
//
// A call is named as its plan function (plan_norm() → "norm"); keys are the members of its structure, pointers are
// hexadecimal addresses, types are named as to_string(DType) does, enumerators are numbers, arrays are "1,2,3". Members
// of members are "left.dtype", those of a list of structures "axes.0.extent" or, where each is two numbers,
// "kept.extent=4,5". Keys that a call does not have and values that are none are refused, so a slip never becomes a
// default.
#pragma once

#include <string>
#include <string_view>

#include "kernels/gpu/launch.h"
#include "kpt/status.h"

namespace kpt {

struct CallText {
  gpu::Plan plan;
  std::size_t workspace_bytes = 0;  // of calls that have one
};

// With "workspace_only=1" the plan stays empty: how large a workspace has to be is known before its address is.
// Fails with kInvalidArgument, and as the plan function does.
Result<CallText> plan_from_text(std::string_view text, const gpu::DeviceShape& device);

// "norm_wave_f16 12 128 00ab…": kernel, blocks, threads, bytes of the arguments.
std::string to_text(const gpu::Launch& launch);

}  // namespace kpt
