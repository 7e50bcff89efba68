// Nodes of our own beside the nodes of libtorch that they replace, as graphs of the CPU backend with the same threads.
// For a fair comparison on a busy machine: --benchmark_enable_random_interleaving=true --benchmark_repetitions=20
#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <string>

#include "api/backend_list.h"
#include "api/model_loading.h"
#include "ir/text.h"
#include "runtime/generate_inputs.h"
#include "runtime/loaded_model.h"

namespace {

using kpt::ir::read_graph;

struct Subject {
  const char* name;
  const char* graph;
};

// Where a graph has rows of a merged product, as a model with one matrix for query, key and value has them.
constexpr Subject kSubjects[] = {
    {"attention_128/aten", R"(kpt_graph 1
values qkv, parts, q, k, v, attention, back, flat
input qkv: float32[1, 128, 36, 64]
parts: float32[1, 36, 128, 64]{strides=[294912, 64, 2304, 1]} = aten.transpose.int(self=%qkv, dim0=1, dim1=2)
q: float32[1, 12, 128, 64]{strides=[294912, 64, 2304, 1]} = aten.slice.Tensor(self=%parts, dim=1, start=0, end=12)
k: float32[1, 12, 128, 64]{strides=[294912, 64, 2304, 1]} = aten.slice.Tensor(self=%parts, dim=1, start=12, end=24)
v: float32[1, 12, 128, 64]{strides=[294912, 64, 2304, 1]} = aten.slice.Tensor(self=%parts, dim=1, start=24, end=36)
attention: float32[1, 12, 128, 64]{strides=[98304, 64, 768, 1]} = aten.scaled_dot_product_attention.default(query=%q, key=%k, value=%v)
back: float32[1, 128, 12, 64] = aten.transpose.int(self=%attention, dim0=1, dim1=2)
flat: float32[1, 128, 768] = aten.reshape.default(self=%back, shape=[1, 128, 768])
output %flat "flat"
)"},
    {"attention_128/own", R"(kpt_graph 1
values qkv, parts, q, k, v, attention, flat
input qkv: float32[1, 128, 36, 64]
parts: float32[1, 36, 128, 64]{strides=[294912, 64, 2304, 1]} = aten.transpose.int(self=%qkv, dim0=1, dim1=2)
q: float32[1, 12, 128, 64]{strides=[294912, 64, 2304, 1]} = aten.slice.Tensor(self=%parts, dim=1, start=0, end=12)
k: float32[1, 12, 128, 64]{strides=[294912, 64, 2304, 1]} = aten.slice.Tensor(self=%parts, dim=1, start=12, end=24)
v: float32[1, 12, 128, 64]{strides=[294912, 64, 2304, 1]} = aten.slice.Tensor(self=%parts, dim=1, start=24, end=36)
attention: float32[1, 128, 12, 64] = kpt.attention.default(query=%q, key=%k, value=%v, mask=none, scale=0.125, causal=false)
flat: float32[1, 128, 768] = aten.reshape.default(self=%attention, shape=[1, 128, 768])
output %flat "flat"
)"},
    {"attention_decode_512/aten", R"(kpt_graph 1
values q, k, v, attention, back, flat
input q: float32[1, 12, 1, 64]
input k: float32[1, 12, 512, 64]
input v: float32[1, 12, 512, 64]
attention: float32[1, 12, 1, 64] = aten.scaled_dot_product_attention.default(query=%q, key=%k, value=%v)
back: float32[1, 1, 12, 64] = aten.transpose.int(self=%attention, dim0=1, dim1=2)
flat: float32[1, 1, 768] = aten.reshape.default(self=%back, shape=[1, 1, 768])
output %flat "flat"
)"},
    {"attention_decode_512/own", R"(kpt_graph 1
values q, k, v, attention, flat
input q: float32[1, 12, 1, 64]
input k: float32[1, 12, 512, 64]
input v: float32[1, 12, 512, 64]
attention: float32[1, 1, 12, 64] = kpt.attention.default(query=%q, key=%k, value=%v, mask=none, scale=0.125, causal=false)
flat: float32[1, 1, 768] = aten.reshape.default(self=%attention, shape=[1, 1, 768])
output %flat "flat"
)"},
    {"attention_causal_512/aten", R"(kpt_graph 1
values q, k, v, attention, back, flat
input q: float32[1, 12, 512, 64]
input k: float32[1, 12, 512, 64]
input v: float32[1, 12, 512, 64]
attention: float32[1, 12, 512, 64]{strides=[393216, 64, 768, 1]} = aten.scaled_dot_product_attention.default(query=%q, key=%k, value=%v, is_causal=true)
back: float32[1, 512, 12, 64] = aten.transpose.int(self=%attention, dim0=1, dim1=2)
flat: float32[1, 512, 768] = aten.reshape.default(self=%back, shape=[1, 512, 768])
output %flat "flat"
)"},
    {"attention_causal_512/own", R"(kpt_graph 1
values q, k, v, attention, flat
input q: float32[1, 12, 512, 64]
input k: float32[1, 12, 512, 64]
input v: float32[1, 12, 512, 64]
attention: float32[1, 512, 12, 64] = kpt.attention.default(query=%q, key=%k, value=%v, mask=none, scale=0.125, causal=true)
flat: float32[1, 512, 768] = aten.reshape.default(self=%attention, shape=[1, 512, 768])
output %flat "flat"
)"},
    {"add_layer_norm/aten", R"(kpt_graph 1
values weight, bias, x, y, sum, normed, result
parameter weight: float32[768] "weight"
parameter bias: float32[768] "bias"
input x: float32[1, 128, 768]
input y: float32[1, 128, 768]
sum: float32[1, 128, 768] = aten.add.Tensor(self=%x, other=%y)
normed: float32[1, 128, 768] = aten.layer_norm.default(input=%sum, normalized_shape=[768], weight=%weight, bias=%bias, eps=1e-05)
result: float32[1, 128, 768] = aten.neg.default(self=%normed)
output %result "result"
)"},
    {"add_layer_norm/own", R"(kpt_graph 1
values weight, bias, x, y, normed, sum, result
parameter weight: float32[768] "weight"
parameter bias: float32[768] "bias"
input x: float32[1, 128, 768]
input y: float32[1, 128, 768]
normed: float32[1, 128, 768], sum: float32[1, 128, 768] = kpt.add_norm.default(input=%x, residual=%y, weight=%weight, bias=%bias, epsilon=1e-05, kind="layer")
result: float32[1, 128, 768] = aten.neg.default(self=%normed)
output %result "result"
)"},
    {"swiglu/aten", R"(kpt_graph 1
values x, first, second, gate, product, result
input x: float32[1, 128, 4096]
first: float32[1, 128, 2048]{strides=[524288, 4096, 1]} = aten.slice.Tensor(self=%x, dim=2, start=0, end=2048)
second: float32[1, 128, 2048]{strides=[524288, 4096, 1]} = aten.slice.Tensor(self=%x, dim=2, start=2048, end=4096)
gate: float32[1, 128, 2048] = aten.silu.default(self=%first)
product: float32[1, 128, 2048] = aten.mul.Tensor(self=%gate, other=%second)
result: float32[1, 128, 2048] = aten.neg.default(self=%product)
output %result "result"
)"},
    {"swiglu/own", R"(kpt_graph 1
values x, product, result
input x: float32[1, 128, 4096]
product: float32[1, 128, 2048] = kpt.glu.default(input=%x, activation="silu")
result: float32[1, 128, 2048] = aten.neg.default(self=%product)
output %result "result"
)"},
};

std::shared_ptr<const kpt::detail::LoadedModel> load(const char* text) {
  kpt::ImportedModel model;
  model.graph = read_graph(text).value();
  std::mt19937_64 random(1);  // NOLINT(bugprone-random-generator-seed): figures of two runs compare
  std::normal_distribution<float> normal;
  for (const kpt::ir::GraphInput& input : model.graph.inputs) {
    if (input.kind != kpt::ir::InputKind::kParameter) continue;
    kpt::Dims dims;
    for (const kpt::ir::Expr& dim : model.graph.at(input.value).tensor.dims) dims.push_back(dim.constant().value());
    const kpt::Tensor weight = kpt::Tensor::empty(kpt::DType::kFloat32, dims).value();
    for (float& value : weight.elements<float>()) value = normal(random);
    model.weights.emplace(input.name, weight);
  }
  const kpt::Environment environment = kpt::Environment::from_process();
  const auto context = kpt::make_backend_context(kpt::load_config({}, environment).value(), environment).value();
  kpt::PlacedDevice placed = kpt::find_runnable_device("cpu", context).value();
  kpt::Backend& backend = *placed.backend;
  return kpt::detail::LoadedModel::load(std::move(model), backend, *placed.device, std::move(placed.backend)).value();
}

void run_graph(benchmark::State& state, const char* text) {
  const auto model = load(text);
  std::vector<kpt::Tensor> inputs;
  for (kpt::NamedTensor& input : kpt::generate_inputs(model->graph(), {1, {}, {}}).value()) {
    inputs.push_back(std::move(input.tensor));
  }
  std::vector<kpt::Tensor> outputs;
  kpt::RunContext context;
  for (auto _ : state) {
    if (!model->executable().run(context, inputs, outputs).ok()) {
      state.SkipWithError("the run failed");
      break;
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  benchmark::Initialize(&count, arguments);
  for (const Subject& subject : kSubjects) {
    benchmark::RegisterBenchmark(subject.name, run_graph, subject.graph)
        ->Unit(benchmark::kMicrosecond)
        ->UseRealTime()
        ->ComputeStatistics(
            "min", [](const std::vector<double>& times) { return *std::min_element(times.begin(), times.end()); });
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
