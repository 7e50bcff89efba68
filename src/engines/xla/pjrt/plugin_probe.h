// Opens and initialises a PJRT plugin and reads which version of the interface it speaks.
#pragma once

#include <string>

#include "device/hardware.h"

namespace kpt {

// Loads the library at `path` and calls what Plugin::open() will call: GetPjrtApi, PJRT_Plugin_Initialize and
// PJRT_Plugin_Attributes. Creates no client and asks for no device. Fills `path`, `finding`, `api_major` and
// `api_minor`; `name` and `source` are the caller's to know.
//
// kBroken when the library cannot be loaded, has no GetPjrtApi, gives no table or an implausible one, speaks a version
// that we do not (newer major, or older than 0.57), or fails to initialise.
//
// For kpt-probe only: a plugin may crash, hang or abort here, stays loaded with the threads that it starts, and finds
// variables of libtpu set that are for a process without devices.
PjrtPlugin probe_pjrt_plugin(const std::string& path);

}  // namespace kpt
