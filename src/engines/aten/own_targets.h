// The operators of ir/own_operators.h that the module has nodes for (module/own_nodes.cpp holds the table; the compiler
// compares the two). Here, because the backends say what they can do before libtorch is opened.
#pragma once

#include <string_view>

namespace kpt::aten {

inline constexpr std::string_view kOwnTargets[] = {
    "kpt.add_norm.default", "kpt.attention.default",   "kpt.conv2d.default",      "kpt.glu.default",
    "kpt.linear.default",   "kpt.linear_int4.default", "kpt.linear_int8.default", "kpt.rotary.default",
};

}  // namespace kpt::aten
