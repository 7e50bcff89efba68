// Which KernelPyTorch this is.
#pragma once

#include <string_view>

#include "kpt/export.h"

namespace kpt {

KPT_API std::string_view version();  // "0.5.0"
KPT_API std::string_view commit();   // "1a2b3c4d5e6f", or "unknown" outside a checkout

}  // namespace kpt
