// 2-D convolutions in channels-last memory: out = activation(conv2d(input, weight) + bias + residual).
//
// A dense one is a product: every place of the result is a row of A, made of the patch of the input below the filter.
// Patches are gathered panel by panel while the product runs, or where the kernel allows it their pixels are taken one
// by one; only a 1 x 1 filter without stride and padding takes the input where it lies. A depthwise one (one filter per
// channel) has a kernel of its own, and so has one of a few input channels in float32 with AVX2 or more.
//
// A 3 x 3 filter without stride and dilation over an image that is not small may go by Winograd's tiles, in float32
// alone. Then an infinity or a NaN of the input may also show in the neighbours that share a tile.
//
// With int8 filters the input is quantized when it comes: where it is taken as it lies with a scale per place, else
// with one per image, because patches share elements. An image with an infinity or a NaN then gives NaN everywhere.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cpu/packed_linear.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd_kernels.h"
#include "kpt/status.h"

namespace kpt::kernels {

// Read during pack() only.
struct ConvWeights {
  // float32, bfloat16 or int8; a depthwise one is computed in float32 either way and has no int8.
  LinearForm form = LinearForm::kFloat32;
  const void* data = nullptr;  // [out_channels, in_channels / groups, height, width], dense; kInt8: of std::int8_t
  ElementType type = ElementType::kFloat32;
  const float* scale = nullptr;  // kInt8: [out_channels]
  std::int64_t out_channels = 0;
  std::int64_t in_channels = 0;
  std::array<std::int64_t, 2> kernel = {1, 1};
  std::array<std::int64_t, 2> stride = {1, 1};
  std::array<std::int64_t, 2> padding = {0, 0};      // above and to the left
  std::array<std::int64_t, 2> end_padding = {0, 0};  // below and to the right
  std::array<std::int64_t, 2> dilation = {1, 1};
  std::int64_t groups = 1;  // 1, or the number of channels with as many filters
  const void* bias = nullptr;
  ElementType bias_type = ElementType::kFloat32;
  // The input's height and width where they are known: some sizes allow fewer products. Others may come all the same.
  std::array<std::int64_t, 2> expected = {0, 0};
};

// [batch, height, width, channels], dense. The residual, where there is one, has the result's sizes and type.
struct ConvCall {
  std::int64_t batch = 0;
  std::int64_t height = 0;  // of the input
  std::int64_t width = 0;
  const void* input = nullptr;
  ElementType input_type = ElementType::kFloat32;
  bool input_is_planar = false;  // [batch, channels, height, width]; only where takes_planar_input() says so
  const void* residual = nullptr;
  ElementType residual_type = ElementType::kFloat32;
  void* output = nullptr;
  ElementType output_type = ElementType::kFloat32;
  Activation activation = Activation::kNone;
};

// Immutable after pack(); any number of threads may run it at once, each with its own workspace.
class PackedConv {
 public:
  // kInvalidArgument for weights that contradict themselves, kUnsupported for groups between one and all channels,
  // kPrecisionCompilation for depthwise int8 filters and for weights alone in fewer bits, kOutOfMemory.
  static Result<PackedConv> pack(const ConvWeights& weights, const CpuFeatures& features = cpu_features());

  std::int64_t out_channels() const { return shape_.out_channels; }
  std::int64_t in_channels() const { return shape_.in_channels; }
  bool is_depthwise() const { return !product_.has_value(); }
  LinearForm form() const { return shape_.form; }
  // Whether a filter of 3 x 3 became one of 4 x 4 places for tiles of 2 x 2 results (winograd.h).
  bool is_winograd() const { return winograd_; }
  std::string kernel_name() const;
  // Why this way of convolving and not another, or why not Winograd's tiles; empty where patches are the only way.
  std::string reason() const;
  // Height and width of the result for an input of these; kInvalidArgument when the filter is larger than the padded
  // input or the sizes are absurd.
  Result<std::array<std::int64_t, 2>> output_size(std::int64_t height, std::int64_t width) const;

  // Whether channels may also come first in the input of such a call. Looks at sizes, types and residual alone.
  bool takes_planar_input(const ConvCall& call) const { return takes_few_channels(call); }

  std::size_t workspace_bytes(const ConvCall& call, int threads) const;
  // Needs an input whose output_size() is ok, and workspace_bytes() bytes aligned to 64. Allocates nothing.
  void run(const ConvCall& call, void* workspace, const Parallel& parallel) const;

 private:
  PackedConv() = default;
  Status pack_winograd(const ConvWeights& weights, LinearWeights linear, const CpuFeatures& features);
  bool takes_input_as_it_lies() const;
  // Whether the product takes the pixels below a patch one by one, where they lie.
  bool takes_pieces() const;
  // Whether patches are gathered from an image of int8.
  bool quantizes_images() const;
  std::size_t product_bytes(const ConvCall& call, std::array<std::int64_t, 2> size, int threads) const;
  void quantize_images(const ConvCall& call, std::int8_t* images, float* scales, const Parallel& parallel) const;
  void run_depthwise(const ConvCall& call, std::array<std::int64_t, 2> size, void* workspace,
                     const Parallel& parallel) const;

  static bool suits_few_channels(const ConvWeights& weights, const CpuFeatures& features);
  bool takes_few_channels(const ConvCall& call) const;
  // Of one worker's memory, for rows of so many results.
  std::int64_t few_channels_floats(std::int64_t width) const;
  void run_few_channels(const ConvCall& call, std::array<std::int64_t, 2> size, void* workspace,
                        const Parallel& parallel) const;

  ConvWeights shape_;  // its pointers are null
  std::optional<PackedLinear> product_;
  bool winograd_ = false;
  std::vector<float> filters_;  // depthwise: [height][width][channels]
  // Of few input channels, as FewChannelsRow has them. Calls of other types take product_.
  std::vector<float> few_channels_;
  std::vector<float> bias_;  // of these two: [channels], zeros without one
  const SimdKernels* simd_ = nullptr;
};

}  // namespace kpt::kernels
