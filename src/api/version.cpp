#include "kpt/version.h"

#include "base/build_info.h"

namespace kpt {

std::string_view version() { return build_info().version; }
std::string_view commit() { return build_info().commit; }

}  // namespace kpt
