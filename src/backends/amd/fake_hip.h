// Where the tests' own libamdhip64 is.
#pragma once

#include <string>

#include "support/tree_paths.h"

namespace kpt {

inline const std::string kFakeHip = build_dir() + "/fakes/amd/libamdhip64.so.6";

}  // namespace kpt
