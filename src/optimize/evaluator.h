// How passes compute constants.
#pragma once

#include "api/backend_list.h"
#include "passes/pass.h"

namespace kpt {

// Runs on `cpu`, which must outlive it.
Evaluator make_evaluator(const PlacedDevice& cpu);

}  // namespace kpt
