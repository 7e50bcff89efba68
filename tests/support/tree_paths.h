// Where this tree lies. Only tree_paths.cpp knows, so the objects of all tests are the same in every clone, and ccache
// shares them. Not in kpt::testing: that would hide GoogleTest's namespace from tests that write `testing::`.
#pragma once

#include <string>

namespace kpt {

// The root of the sources and the folder that they were built in: absolute, without a slash at the end. May be called
// before main().
std::string source_dir();
std::string build_dir();

}  // namespace kpt
