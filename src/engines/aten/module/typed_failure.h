// Failures of nodes of ours for which there is a more exact code than kKernel.
#pragma once

#include <string>

#include "engines/aten/module/own_nodes.h"
#include "kpt/status.h"
#include "memory/available_memory.h"

namespace kpt::aten {

class TypedFailure : public OwnNodeFailure {
 public:
  TypedFailure(StatusCode code, const std::string& what) : OwnNodeFailure(what), code_(code) {}
  StatusCode code() const { return code_; }

 private:
  StatusCode code_;
};

// Throws TypedFailure saying `what` (one clause) unless `holds`.
inline void require_as(StatusCode code, bool holds, const char* what) {
  if (!holds) throw TypedFailure(code, what);
}

// Weights that could not be packed: those of few bits have a code of their own, and where memory was short a smaller
// batch may do.
[[noreturn]] inline void throw_not_packed(const Status& status) {
  const bool is_told = status.code() == StatusCode::kPrecisionCompilation || is_shortage(status.code());
  throw TypedFailure(is_told ? status.code() : StatusCode::kKernel, status.message());
}

}  // namespace kpt::aten
