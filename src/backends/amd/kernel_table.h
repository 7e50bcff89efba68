// The page that says what each kernel needs on each AMD target: docs/reference/amd_kernels.md.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/amd/hip_compiler.h"
#include "kpt/status.h"

namespace kpt {

// The targets of the page: one for each kind of compute unit in use.
std::vector<std::string_view> kernel_table_targets();

// Compiles all families for the targets, a column each, in a fixed order. Fails as compile() does, and when a code
// object lacks a kernel or holds one that breaks check_resources().
Result<std::string> kernel_table_page(HipCompileCache& compiler, std::span<const std::string_view> targets);

// The line of a page that names its compiler: figures of two pages agree only if these do.
std::string_view compiler_line(std::string_view page);

}  // namespace kpt
