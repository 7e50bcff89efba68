// The operators of ir/own_operators.h that the modules have nodes for (module/cpu_own_nodes.cpp and
// cuda/cuda_own_nodes.cpp hold the tables; the compiler compares them with these). Here, because the backends say what
// they can do before libtorch is opened.
#pragma once

#include <string_view>

namespace kpt::aten {

inline constexpr std::string_view kOwnTargets[] = {
    "kpt.add_norm.default",    "kpt.attention.default",   "kpt.conv2d.default",
    "kpt.conv2d_int8.default", "kpt.glu.default",         "kpt.linear.default",
    "kpt.linear_int4.default", "kpt.linear_int8.default", "kpt.linear_weight_int8.default",
    "kpt.rotary.default",
};

// On NVIDIA GPUs, in builds that have our CUDA kernels.
inline constexpr std::string_view kCudaOwnTargets[] = {
    "kpt.add_norm.default", "kpt.attention.default",  "kpt.conv2d.default",      "kpt.glu.default",
    "kpt.linear.default",   "kpt.linear_fp8.default", "kpt.linear_int4.default", "kpt.linear_weight_int8.default",
    "kpt.rotary.default",
};

}  // namespace kpt::aten
