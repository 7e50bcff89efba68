// A backend that nothing outside tests/ knows: it adds and multiplies float32 tensors, its memory has no address for
// anybody else, it allocates its own outputs and takes whole graphs only, as PJRT does.
#pragma once

#include <memory>

#include "device/execution.h"

namespace kpt::execution_test {

std::unique_ptr<Backend> make_test_backend();

}  // namespace kpt::execution_test
