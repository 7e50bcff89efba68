// Opens a PJRT plugin and reads which version of the interface it speaks.
#pragma once

#include <string>

#include "device/hardware.h"

namespace kpt {

// Loads the library at `path` and calls its GetPjrtApi; creates no client and asks for no device. Fills `path`,
// `finding`, `api_major` and `api_minor`; `name` and `source` are the caller's to know.
//
// kBroken when the library cannot be loaded, has no GetPjrtApi, gives no table or an implausible one, or speaks a
// version that we do not: newer major, or older than 0.57.
//
// For kpt-probe only: a plugin may crash, hang or abort here, stays loaded, and finds TPU_SKIP_MDS_QUERY=1 set, without
// which libtpu waits for a metadata server.
PjrtPlugin probe_pjrt_plugin(const std::string& path);

}  // namespace kpt
