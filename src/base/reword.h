// A failure that is told in other words on its way up.
#pragma once

#include <string>
#include <utility>

#include "kpt/status.h"

namespace kpt {

// `status`, which must not be ok, under another code and sentence. The vendor and the details stay.
inline Status reword(const Status& status, StatusCode code, std::string message) {
  Status told(code, std::move(message), status.vendor());
  for (const StatusDetail& detail : status.details()) told.with(detail.key, detail.value);
  return told;
}

}  // namespace kpt
