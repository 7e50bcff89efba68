// Chains of kpt.conv2d, pooling and element-wise nodes keep their images channels-last: the recorded strides change,
// and kernels follow them. A convolution takes its input in any layout, so nothing is converted where a chain begins;
// where it ends (other nodes, outputs of the model), one aten.contiguous puts the image back.
#pragma once

#include "passes/pass.h"

namespace kpt {

extern const Pass kChannelsLast;

}  // namespace kpt
