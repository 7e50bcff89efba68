// A small artifact with everything in it that the format knows: for tests only.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "artifact/artifact.h"
#include "ir/text.h"

namespace kpt::testing {

// Random bytes; a tensor of bools holds only bools.
inline Tensor random_tensor(std::mt19937& random, DType dtype, const Dims& dims) {
  Tensor tensor = Tensor::empty(dtype, dims).value();
  auto* bytes = static_cast<unsigned char*>(tensor.data());
  for (std::size_t i = 0; i < tensor.bytes(); ++i) {
    bytes[i] = static_cast<unsigned char>(dtype == DType::kBool ? random() & 1U : random());
  }
  return tensor;
}

inline bool same_elements(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.dims() == b.dims())) return false;
  const Tensor x = a.contiguous_copy().value();
  const Tensor y = b.contiguous_copy().value();
  return x.bytes() == 0 || std::memcmp(x.data(), y.data(), x.bytes()) == 0;
}

inline bool same_tensors(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].name != b[i].name || !same_elements(a[i].tensor, b[i].tensor)) return false;
  }
  return true;
}

inline bool same_weights(const Weights& a, const Weights& b) {
  if (a.size() != b.size()) return false;
  for (auto x = a.begin(), y = b.begin(); x != a.end(); ++x, ++y) {
    if (x->first != y->first || !same_elements(x->second, y->second)) return false;
    if (!(x->second.strides() == y->second.strides())) return false;
  }
  return true;
}

// All that the file holds; how memory is shared is not compared.
inline bool same_artifact(const Artifact& a, const Artifact& b) {
  if (a.producer != b.producer || a.source != b.source || a.source_sha256 != b.source_sha256) return false;
  if (a.targets.size() != b.targets.size() || a.samples.size() != b.samples.size()) return false;
  for (std::size_t i = 0; i < a.targets.size(); ++i) {
    const ArtifactTarget& x = a.targets[i];
    const ArtifactTarget& y = b.targets[i];
    if (x.name != y.name || x.needs != y.needs || x.report != y.report || !(x.graph == y.graph)) return false;
    if (x.program != y.program) return false;
    if (!same_weights(x.weights, y.weights)) return false;
  }
  for (std::size_t i = 0; i < a.samples.size(); ++i) {
    if (a.samples[i].target != b.samples[i].target) return false;
    if (!same_tensors(a.samples[i].inputs, b.samples[i].inputs)) return false;
    if (!same_tensors(a.samples[i].outputs, b.samples[i].outputs)) return false;
    if (!same_tensors(a.samples[i].reference, b.samples[i].reference)) return false;
  }
  return true;
}

// Two targets that share weights, a tied weight, a transposed view, an empty weight, and one sample.
inline Artifact small_artifact(std::mt19937& random) {
  constexpr const char* kGraph = R"(kpt_graph 1
symbol s0 in 1..64
input x: float32[s0, 4]
parameter w: float32[4, 4] "linear.weight"
parameter tied: float32[4, 4] "head.weight"
constant t: float32[4, 4] "transposed"
buffer none_: int64[0, 3] "empty"
linear: float32[s0, 4] = aten.linear.default(input=%x, weight=%w)
output %linear "y"
)";
  constexpr const char* kOther = R"(kpt_graph 1
input x: float32[2, 4]
parameter w: float32[4, 4] "linear.weight"
constant scale: bfloat16[4] "scale"
output %x "y"
)";
  Artifact made;
  made.producer = "kpt 0.5.0";
  made.source = "modèl.pt2";
  made.source_sha256 = std::string(64, 'a');
  const Tensor weight = random_tensor(random, DType::kFloat32, {4, 4});
  Weights weights;
  weights["linear.weight"] = weight;
  weights["head.weight"] = weight;
  weights["transposed"] = Tensor::from_buffer(weight.buffer(), DType::kFloat32, {{4, 4}}, {{1, 4}}, 0).value();
  weights["empty"] = Tensor::empty(DType::kInt64, {{0, 3}}).value();
  Weights others;
  others["linear.weight"] = weight;
  others["scale"] = random_tensor(random, DType::kBFloat16, {4});
  made.targets.push_back({"cpu", {"bf16", "i8mm"}, ir::read_graph(kGraph).value(), weights, R"({"level":"balanced"})"});
  made.targets.push_back({"nvidia:sm_90", {}, ir::read_graph(kOther).value(), others, "{}"});
  ArtifactSample sample;
  sample.inputs.push_back({"x", random_tensor(random, DType::kFloat32, {2, 4})});
  sample.outputs.push_back({"y", random_tensor(random, DType::kFloat32, {2, 4})});
  sample.reference.push_back({"y", random_tensor(random, DType::kFloat64, {2, 4})});
  made.samples.push_back(std::move(sample));
  return made;
}

}  // namespace kpt::testing
