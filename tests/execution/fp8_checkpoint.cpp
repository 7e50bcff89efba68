#include "fp8_checkpoint.h"

#include <bit>
#include <cmath>
#include <random>

#include <fmt/format.h>

#include "ir/text.h"

namespace kpt::execution_test {
namespace {

// {0}: how many rows; {1}: the symbol; {2}: the node that reads it; {3}: what it gives.
constexpr const char* kCheckpoint = R"(kpt_graph 1
{1}buffer w: float8_e4m3fn[64, 48] "w"
buffer w_scale: float32[1, 64] "w_scale"
buffer x_scale: float32[] "x_scale"
buffer b: bfloat16[64] "b"
buffer v: float8_e4m3fn[32, 64] "v"
buffer v_scale: float32[32, 1] "v_scale"
input x: float32[{0}, 48]
div: float32[{0}, 48] = aten.div.Tensor(self=%x, other=%x_scale)
clamp: float32[{0}, 48] = aten.clamp.default(self=%div, min=-448, max=448)
to: float8_e4m3fn[{0}, 48] = aten.to.dtype(self=%clamp, dtype=dtype(float8_e4m3fn))
t: float8_e4m3fn[48, 64]{{strides=[1, 48]}} = aten.t.default(self=%w)
{2}rows: float32[{0}, 1]{{strides=[0, 1]}} = aten.expand.default(self=%x_scale, size=[{3}, 1])
dense: float32[{0}, 1] = aten.clone.default(self=%rows, memory_format=memory_format(contiguous))
mm: float32[{0}, 64] = aten._scaled_mm.default(self=%to, mat2=%t, scale_a=%dense, scale_b=%w_scale, bias=%b, scale_result=none, out_dtype=dtype(float32), use_fast_accum=false)
wide: float32[32, 64] = aten.to.dtype(self=%v, dtype=dtype(float32))
scaled: float32[32, 64] = aten.mul.Tensor(self=%wide, other=%v_scale)
out: float32[{0}, 32] = aten.linear.default(input=%mm, weight=%scaled)
output %mm "first"
output %out "second"
)";

}  // namespace

void draw_fp8_weights(ImportedModel& model, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::uniform_real_distribution<float> octaves(-7, -4);
  for (const ir::GraphInput& input : model.graph.inputs) {
    if (input.kind == ir::InputKind::kUser) continue;
    const ir::TensorType& type = model.graph.at(input.value).tensor;
    Dims dims;
    for (const ir::Expr& dim : type.dims) dims.push_back(*dim.constant());
    const Tensor weight = Tensor::empty(type.dtype, dims).value();
    if (type.dtype == DType::kFloat32) {
      for (float& value : weight.elements<float>()) value = std::exp2(octaves(random));
    } else if (type.dtype == DType::kBFloat16) {
      for (std::uint16_t& value : weight.elements<std::uint16_t>()) {
        value = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(normal(random)) >> 16U);
      }
    } else {
      auto* const codes = static_cast<std::uint8_t*>(weight.data());
      for (std::size_t i = 0; i < weight.bytes(); ++i) {
        codes[i] = static_cast<std::uint8_t>(random());
        // NaN and infinity would hide the rest. Minus zero stays: it is another kind's NaN.
        const std::uint8_t last = type.dtype == DType::kFloat8E5M2 ? 0x7b : 0x7e;
        if ((codes[i] & 0x7fU) > last) codes[i] = 0x80;
      }
    }
    model.weights.emplace(input.name, weight);
  }
}

ImportedModel make_fp8_checkpoint(std::uint64_t seed, const std::string& rows) {
  const bool is_free = rows == "s0";
  const std::string text =
      fmt::format(fmt::runtime(kCheckpoint), rows, is_free ? "symbol s0 in 2..64\n" : "",
                  is_free ? "size: int(s0) = aten.sym_size.int(self=%x, dim=0)\n" : "", is_free ? "%size" : rows);
  ImportedModel model;
  model.graph = ir::read_graph(text).value();
  draw_fp8_weights(model, seed);
  return model;
}

}  // namespace kpt::execution_test
