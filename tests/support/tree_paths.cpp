#include "support/tree_paths.h"

namespace kpt {

std::string source_dir() { return KPT_SOURCE_DIR; }

std::string build_dir() { return KPT_BUILD_DIR; }

}  // namespace kpt
