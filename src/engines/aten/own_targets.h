// The operators of ir/own_operators.h that the modules have nodes for (module/cpu_own_nodes.cpp,
// cuda/cuda_own_nodes.cpp and rocm/rocm_own_nodes.cpp hold the tables; the compiler compares them with these). Here,
// because the backends say what they can do before libtorch is opened.
#pragma once

#include <optional>
#include <string_view>

#include "kpt/dtype.h"

namespace kpt::aten {

inline constexpr std::string_view kOwnTargets[] = {
    "kpt.add_norm.default",    "kpt.attention.default",   "kpt.conv2d.default",
    "kpt.conv2d_int8.default", "kpt.glu.default",         "kpt.linear.default",
    "kpt.linear_int4.default", "kpt.linear_int8.default", "kpt.linear_weight_int8.default",
    "kpt.rotary.default",
};

// On NVIDIA GPUs, in builds that have our CUDA kernels.
inline constexpr std::string_view kCudaOwnTargets[] = {
    "kpt.add_norm.default", "kpt.attention.default",          "kpt.conv2d.default",          "kpt.glu.default",
    "kpt.linear.default",   "kpt.linear_fp8.default",         "kpt.linear_int4.default",     "kpt.linear_int8.default",
    "kpt.rotary.default",   "kpt.linear_weight_int8.default", "kpt.linear_fp8_e5m2.default",
};

// Of those: which take float16 where they take bfloat16.
inline constexpr std::string_view kCudaFloat16Targets[] = {
    "kpt.add_norm.default",    "kpt.attention.default", "kpt.conv2d.default",
    "kpt.glu.default",         "kpt.linear.default",    "kpt.linear_int4.default",
    "kpt.linear_int8.default", "kpt.rotary.default",    "kpt.linear_weight_int8.default",
};

// On AMD GPUs through libtorch's ROCm build, where there is a compiler for our kernels. They are compiled for the GPU
// when a model is loaded, by family. All take float16 where they take bfloat16.
struct RocmOwnTarget {
  std::string_view target;
  std::string_view families[3];  // of kernels/gpu that its node may launch on every GPU; empty: no more
  // What it may launch besides on a GPU with matrix cores, without the name of the unit: "matrix" is matrix_cdna3 on
  // CDNA3. Empty: nothing.
  std::string_view matrix_family = {};
  // The type of the weight whose products it needs matrix cores for; without them a target does not have the operator.
  std::optional<DType> needed_product = std::nullopt;
};
inline constexpr RocmOwnTarget kRocmOwnTargets[] = {
    {"kpt.add_norm.default", {"norm"}},
    {"kpt.attention.default", {}, "attention"},
    {"kpt.glu.default", {"activation"}},
    {"kpt.linear.default", {"activation"}},
    {"kpt.linear_fp8.default", {"quantize"}, "matrix", DType::kFloat8E4M3FN},
    {"kpt.linear_int4.default", {"activation", "weight_only"}},
    {"kpt.linear_int8.default", {"quantize"}, "matrix", DType::kInt8},
    {"kpt.linear_weight_int8.default", {"activation", "convert", "weight_only"}},
    {"kpt.rotary.default", {"rotary"}},
};

}  // namespace kpt::aten
