// One scale for a whole tensor with E5M2 (quantize_kernels.h has the body, and what limits it). For NVIDIA alone, whose
// matrix units multiply inputs of E5M2 by weights of E4M3; AMD's products here take E4M3 on both sides.
//
// Intensity: that of quantize_tensor_*_e4m3.
#pragma once

#include "kernels/gpu/quantize_kernels.h"

namespace kpt::gpu {

// X(name, arguments, most threads in a block, body)
#define KPT_QUANTIZE_E5M2_KERNELS(X)                                                 \
  X(quantize_tensor_f32_e5m2, QuantizeTensorArgs, 512, quantize_tensor<float, E5M2>) \
  X(quantize_tensor_f16_e5m2, QuantizeTensorArgs, 512, quantize_tensor<Half, E5M2>)  \
  X(quantize_tensor_bf16_e5m2, QuantizeTensorArgs, 512, quantize_tensor<BFloat, E5M2>)

}  // namespace kpt::gpu
