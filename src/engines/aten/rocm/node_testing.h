// For tests of the ROCm module's nodes on the host's memory: graphs of one node, and a launcher that runs our kernels
// through their host mapping.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engines/aten/module/device_run.h"
#include "engines/aten/module/loaded_graph.h"
#include "engines/aten/module/tensors.h"
#include "engines/aten/own_targets.h"
#include "engines/aten/rocm/rocm_launch.h"
#include "kernels/gpu/host_launcher.h"

namespace kpt::aten {

using Sizes = std::vector<std::int64_t>;

// Starts kernels on the host, and remembers of which families and where they were to run.
class WatchedLauncher final : public gpu::Launcher {
 public:
  explicit WatchedLauncher(int wave, gpu::MatrixUnit unit = gpu::MatrixUnit::kNone) : host_(wave), unit_(unit) {}
  gpu::DeviceShape shape() const override {
    gpu::DeviceShape shape = host_.shape();
    shape.matrix = unit_;
    return shape;
  }
  Status launch(const gpu::Launch& launch, void* stream) override {
    for (const gpu::KernelInfo& info : gpu::list_kernels()) {
      if (info.name == launch.kernel) families.insert(info.family);
    }
    kernels.push_back(launch.kernel);
    streams.insert(stream);
    return host_.launch(launch, nullptr);
  }

  std::vector<std::string> kernels;
  std::set<std::string_view> families;
  std::set<void*> streams;

 private:
  gpu::HostLauncher host_;
  gpu::MatrixUnit unit_;
};

inline float number(float value) { return value; }
inline float number(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U); }
inline float number(at::Half value) { return value; }
inline float number(at::Float8_e4m3fn value) { return value; }
inline float number(bool value) { return value ? 1 : 0; }
inline float number(std::int8_t value) { return value; }
inline float number(std::uint8_t value) { return value; }

template <typename T>
std::vector<double> numbers_of(const Tensor& tensor) {
  std::vector<double> numbers;
  for (const T value : tensor.elements<T>()) numbers.push_back(static_cast<double>(number(value)));
  return numbers;
}

inline std::vector<double> to_numbers(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kBool: return numbers_of<bool>(tensor);
    case DType::kFloat8E4M3FN: return numbers_of<at::Float8_e4m3fn>(tensor);
    case DType::kBFloat16: return numbers_of<std::uint16_t>(tensor);
    case DType::kFloat16: return numbers_of<at::Half>(tensor);
    case DType::kInt8: return numbers_of<std::int8_t>(tensor);
    case DType::kUInt8: return numbers_of<std::uint8_t>(tensor);
    default: return numbers_of<float>(tensor);
  }
}

// A graph of one node, and of what turns its inputs.
class NodeGraph {
 public:
  NodeGraph(std::string target, unsigned seed) : random_(seed) { node_.target = std::move(target); }

  Tensor draw(DType dtype, const Sizes& sizes) {
    Dims dims;
    for (const std::int64_t size : sizes) dims.push_back(size);
    Tensor tensor = Tensor::empty(dtype, dims).value();
    std::normal_distribution<float> normal;
    if (dtype == DType::kFloat32) {
      for (float& value : tensor.elements<float>()) value = normal(random_);
    } else if (dtype == DType::kBFloat16) {
      for (auto& value : tensor.elements<std::uint16_t>()) {
        value = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(normal(random_)) >> 16U);
      }
    } else if (dtype == DType::kFloat16) {
      for (auto& value : tensor.elements<std::uint16_t>()) {
        value = c10::detail::fp16_ieee_from_fp32_value(normal(random_));
      }
    } else if (dtype == DType::kFloat8E4M3FN) {
      for (auto& value : tensor.elements<at::Float8_e4m3fn>()) value = at::Float8_e4m3fn(100 * normal(random_));
    } else if (dtype == DType::kBool) {
      for (auto& value : tensor.elements<bool>()) value = random_() % 4 != 0;
    } else {
      for (auto& value : tensor.elements<std::uint8_t>()) value = static_cast<std::uint8_t>(random_());
    }
    return tensor;
  }

  Tensor input(const std::string& name, DType dtype, const Sizes& sizes) {
    const ir::ValueId id = add(name, dtype, sizes);
    node_.arguments.push_back({name, {id}});
    graph_->inputs.push_back({ir::InputKind::kUser, id, name, true, {}});
    inputs_.push_back(draw(dtype, sizes));
    return inputs_.back();
  }
  // An input of these sizes, of which the node gets a view with the axes 1 and 2 of four in each other's place.
  Tensor turned_input(const std::string& name, DType dtype, const Sizes& sizes) {
    const ir::ValueId id = add(name, dtype, sizes);
    graph_->inputs.push_back({ir::InputKind::kUser, id, name, true, {}});
    const ir::ValueId turned = add(name + "_turned", dtype, {sizes[0], sizes[2], sizes[1], sizes[3]});
    ir::TensorType& type = graph_->at(turned).tensor;
    type.strides = graph_->at(id).tensor.strides;
    std::swap(type.strides[1], type.strides[2]);
    ir::Node turn;
    turn.name = name + "_turn";
    turn.target = "aten.transpose.int";
    turn.arguments = {{"self", {id}}, {"dim0", {std::int64_t{1}}}, {"dim1", {std::int64_t{2}}}};
    turn.outputs.push_back({false, {turned}});
    graph_->nodes.push_back(std::move(turn));
    node_.arguments.push_back({name, {turned}});
    inputs_.push_back(draw(dtype, sizes));
    return inputs_.back();
  }
  Tensor weight(const std::string& name, DType dtype, const Sizes& sizes) {
    const ir::ValueId id = add(name, dtype, sizes);
    node_.arguments.push_back({name, {id}});
    graph_->inputs.push_back({ir::InputKind::kParameter, id, name, true, {}});
    return weights_.emplace(name, draw(dtype, sizes)).first->second;
  }
  void constant(const std::string& name, ir::Argument value) { node_.arguments.push_back({name, std::move(value)}); }
  void result(DType dtype, const Sizes& sizes) {
    const ir::ValueId id = add(fmt::format("result_{}", node_.outputs.size()), dtype, sizes);
    node_.outputs.push_back({false, {id}});
    graph_->outputs.push_back({ir::OutputKind::kUser, {id}, fmt::format("output_{}", graph_->outputs.size())});
  }

  Result<std::vector<Tensor>> run(gpu::Launcher* launcher, void* stream = nullptr) {
    node_.name = "node";
    if (graph_->nodes.empty() || graph_->nodes.back().name != node_.name) graph_->nodes.push_back(node_);
    KPT_ASSIGN_OR_RETURN(const auto loaded, LoadedGraph::load(graph_, weights_, at::kCPU, false));
    const auto frame = loaded->make_frame();
    std::vector<Tensor> outputs;
    std::uint32_t position = 0;
    const LauncherScope kernels(launcher, stream);
    try {
      queue_nodes(*loaded, *frame, RunContext(), nullptr, inputs_, outputs, position);
    } catch (const std::exception&) {
      return loaded->current_failure(position);
    }
    return outputs;
  }

 private:
  ir::ValueId add(const std::string& name, DType dtype, const Sizes& sizes) {
    ir::Value value;
    value.name = name;
    value.tensor.dtype = dtype;
    value.tensor.dims.assign(sizes.begin(), sizes.end());
    std::int64_t stride = 1;
    value.tensor.strides.assign(sizes.size(), 1);
    for (std::size_t axis = sizes.size(); axis-- > 0;) {
      value.tensor.strides[axis] = stride;
      stride *= std::max<std::int64_t>(sizes[axis], 1);
    }
    return graph_->add_value(std::move(value));
  }

  std::shared_ptr<ir::Graph> graph_ = std::make_shared<ir::Graph>();
  ir::Node node_;
  Weights weights_;
  std::vector<Tensor> inputs_;
  std::mt19937 random_;
};

// Whether each number is `wanted` but for `rounding` of its size, and of `size` where the kernel added large numbers.
inline void expect_near(const Tensor& tensor, const std::vector<double>& wanted, double rounding, double size = 1) {
  const std::vector<double> got = to_numbers(tensor);
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t index = 0; index < got.size(); ++index) {
    ASSERT_NEAR(got[index], wanted[index], rounding * (std::abs(wanted[index]) + size)) << "element " << index;
  }
}

inline double rounding_of(DType dtype) {
  if (dtype == DType::kFloat16) return 1.0 / 1500;
  return dtype == DType::kBFloat16 ? 1.0 / 250 : 3e-6;
}

// Every run also looks at where kernels were started, and whether they are of the families that the backend compiles
// for the operator.
class NodeTest : public ::testing::Test {
 protected:
  explicit NodeTest(int wave, gpu::MatrixUnit unit = gpu::MatrixUnit::kNone)
      : launcher_(wave, unit), unit_(unit), trace_(__FILE__, __LINE__, fmt::format("seed {}", seed_)) {}

  std::vector<Tensor> run(NodeGraph& graph, std::string_view target) {
    launcher_.families.clear();
    launcher_.kernels.clear();
    int place = 0;
    auto outputs = graph.run(&launcher_, &place);
    EXPECT_TRUE(outputs.ok()) << outputs.status().message();
    for (void* const stream : launcher_.streams) EXPECT_EQ(stream, &place);
    launcher_.streams.clear();
    for (const RocmOwnTarget& row : kRocmOwnTargets) {
      if (row.target != target) continue;
      for (const std::string_view family : launcher_.families) {
        const bool on_matrix_cores = !row.matrix_family.empty() && unit_ != gpu::MatrixUnit::kNone &&
                                     family == fmt::format("{}_{}", row.matrix_family, gpu::unit_name(unit_));
        EXPECT_TRUE(on_matrix_cores || std::ranges::find(row.families, family) != std::end(row.families)) << family;
      }
      return outputs.ok() ? *outputs : std::vector<Tensor>();
    }
    ADD_FAILURE() << "no row for " << target;
    return {};
  }

  unsigned seed_ = std::random_device{}();
  WatchedLauncher launcher_;

 private:
  gpu::MatrixUnit unit_;
  ::testing::ScopedTrace trace_;
};

}  // namespace kpt::aten
