// Does libtorch compute? Random matrices, one product through the dispatcher, an fp64 product to compare with.
//
// Part of both modules. Throws what libtorch throws; callers stand inside guarded_call().
#pragma once

#include <cstdint>
#include <initializer_list>

#include <ATen/ATen.h>

#include "engines/aten/module_abi.h"

namespace kpt::aten {

// One product per dtype (at most four) on `device`, all from the same matrices. Shapes and values follow from `seed`.
SelfCheck check_matmul(std::uint64_t seed, at::Device device, std::initializer_list<at::ScalarType> dtypes);

}  // namespace kpt::aten
