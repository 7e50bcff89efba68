// A sequence of five runs as it is, and with three further positions, as a device would run it; the first five must
// pass the accuracy rule against it, those of the optimized model too. Then once more with poison in these three: NaN
// behind every operator, and a large number in the keys and values of attention, and in what is multiplied by a mask
// and added up. There every kernel multiplies by zero, which only finite numbers survive (runtime/sequence_rows.h). In
// bfloat16 it is the large number everywhere: see rows_test.cpp.
#include "sequences_test.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "api/backend_list.h"
#include "api/model_loading.h"
#include "importer/model_file.h"
#include "numerics/accuracy.h"
#include "pass_runs.h"
#include "passes/graph_edit.h"
#include "passes/pipeline.h"
#include "runtime/row_parts.h"
#include "runtime/sequence_rows.h"
#include "validation/held_runs.h"

namespace kpt {
namespace {

constexpr std::int64_t kOwn = 5;
constexpr std::int64_t kLonger = 8;
constexpr double kHuge = 16384;

constexpr std::string_view kPoisoned[] = {
    "aten.add.Tensor",         "aten.addmm.default",     "aten.cat.default",
    "aten.cos.default",        "aten.embedding.default", "aten.gelu.default",
    "aten.layer_norm.default", "aten.linear.default",    "aten.mean.dim",
    "aten.mul.Tensor",         "aten.pow.Tensor_Scalar", "aten.rsqrt.default",
    "aten.silu.default",       "aten.sin.default",       "aten.scaled_dot_product_attention.default",
    "aten.tanh.default",
};

class PoisonWriter {
 public:
  PoisonWriter(ImportedModel& model, std::string symbol)
      : model_(model), symbol_(std::move(symbol)), edit_(model.graph, model.weights) {}

  // Further inputs: which positions are poisoned.
  std::vector<NamedTensor> write() {
    const std::size_t nodes = edit_.size();
    for (NodeIndex index = 0; index < nodes; ++index) poison_result(index);
    for (NodeIndex index = 0; index < nodes; ++index) bound_arguments(index);
    edit_.finish();
    for (const auto& [behind, flags] : flags_) {
      ir::GraphInput input;
      input.kind = ir::InputKind::kUser;
      input.name = flags.second.name;
      input.value = flags.first;
      model_.graph.inputs.push_back(std::move(input));
    }
    std::vector<NamedTensor> inputs;
    for (const auto& [behind, flags] : flags_) inputs.push_back(flags.second);
    return inputs;
  }

  std::size_t count() const { return count_; }

 private:
  bool is_added_up(ir::ValueId id) const {
    return std::ranges::any_of(edit_.users(id),
                               [&](NodeIndex user) { return edit_.node(user).target == "aten.sum.dim_IntList"; });
  }

  void poison_result(NodeIndex index) {
    const ir::Node& node = edit_.node(index);
    if (std::ranges::find(kPoisoned, node.target) == std::end(kPoisoned)) return;
    const ir::ValueId from = node.outputs[0].values[0];
    // The fill is contiguous; a view may rely on the strides of what is not.
    if (!find_axis(from) || is_added_up(from) || !is_contiguous(edit_.type(from))) return;
    const bool exact = edit_.type(from).dtype == DType::kFloat32;
    const ir::ValueId to = edit_.add_value(edit_.fresh_name("poisoned"), edit_.type(from));
    edit_.replace_uses(from, to);
    edit_.insert_behind(index, make_fill(from, to, exact ? std::nan("") : kHuge));
    ++count_;
  }

  void bound_arguments(NodeIndex index) {
    const std::string target = edit_.node(index).target;
    std::vector<std::string> names;
    if (target == "aten.scaled_dot_product_attention.default") names = {"key", "value"};
    if (target == "aten.bmm.default") names = {"self", "mat2"};
    if (target == "aten.mul.Tensor" && is_added_up(edit_.node(index).outputs[0].values[0])) names = {"self"};
    for (const std::string& name : names) {
      const auto& arguments = edit_.node(index).arguments;
      const auto found = std::ranges::find(arguments, name, &ir::NamedArgument::name);
      const ir::ValueId from = *found->value.value_id();
      if (!find_axis(from)) continue;
      const ir::ValueId to = edit_.add_value(edit_.fresh_name("bounded"), edit_.type(from));
      edit_.insert_before(index, make_fill(from, to, kHuge));
      edit_.replace_argument(index, name, {to});
    }
  }

  // The only axis along the sequence of a floating value.
  std::optional<std::size_t> find_axis(ir::ValueId id) const {
    const ir::TensorType& type = edit_.type(id);
    std::optional<std::size_t> found;
    for (std::size_t axis = 0; axis < type.dims.size(); ++axis) {
      const std::vector<std::string> symbols = type.dims[axis].symbols();
      if (std::ranges::find(symbols, symbol_) == symbols.end()) continue;
      if (found || !type.dims[axis].is_symbol()) return std::nullopt;
      found = axis;
    }
    return is_floating(type.dtype) ? found : std::nullopt;
  }

  ir::Node make_fill(ir::ValueId from, ir::ValueId to, double poison) {
    const std::size_t behind = edit_.type(from).dims.size() - 1 - find_axis(from).value();
    return make_node(edit_.fresh_name("fill"), "aten.masked_fill.Scalar",
                     {{"self", {from}}, {"mask", {flags_with(behind)}}, {"value", {poison}}}, to);
  }

  ir::ValueId flags_with(std::size_t behind) {
    if (const auto found = flags_.find(behind); found != flags_.end()) return found->second.first;
    std::vector<ir::Expr> dims(behind + 1, ir::Expr(1));
    dims[0] = ir::Expr::symbol(symbol_);
    Dims shape{kLonger};
    for (std::size_t axis = 0; axis < behind; ++axis) shape.push_back(1);
    const Tensor flags = Tensor::empty(DType::kBool, shape).value();
    for (std::int64_t position = 0; position < kLonger; ++position) {
      flags.elements<std::uint8_t>()[static_cast<std::size_t>(position)] = position >= kOwn ? 1 : 0;
    }
    const std::string name = edit_.fresh_name("poison");
    const ir::ValueId id = edit_.add_value(name, contiguous_type(DType::kBool, dims));
    flags_.emplace(behind, std::pair(id, NamedTensor{name, flags}));
    return id;
  }

  ImportedModel& model_;
  std::string symbol_;
  GraphEdit edit_;
  std::map<std::size_t, std::pair<ir::ValueId, NamedTensor>> flags_;  // by the number of axes behind the sequence
  std::size_t count_ = 0;
};

std::vector<std::size_t> axes_along(const ir::Value& value, const std::string& symbol) {
  std::vector<std::size_t> axes;
  for (std::size_t axis = 0; axis < value.tensor.dims.size(); ++axis) {
    if (value.tensor.dims[axis] == ir::Expr::symbol(symbol)) axes.push_back(axis);
  }
  return axes;
}

class ZooSequences : public testing::Test {
 public:
  ZooSequences(std::string path, std::uint64_t seed) : path_(std::move(path)), seed_(seed) {}

  void TestBody() override {
    const Environment environment = Environment::from_process();
    const auto context = make_backend_context(*load_config({}, environment), environment);
    const PlacedDevice cpu = find_runnable_device("cpu", *context).value();
    ImportedModel model = import_model(path_).value();
    const auto rows = find_sequence_rows(model.graph, read_weight_numbers(model.weights));
    if (!rows.ok()) GTEST_SKIP() << rows.status().message();
    SCOPED_TRACE(testing::Message() << "seed " << seed_);
    const Draw draw = make_draws(model, {1, seed_, {{rows->symbol, kOwn}}, {}}).value().front();
    const auto plain = ModelRun::load(model, cpu).value().run(draw.inputs).value();
    const auto exact = load_fp64_form(model, cpu).value().run(draw.inputs).value();
    std::vector<NamedTensor> inputs = lengthen(model.graph, draw.inputs, *rows);
    {
      SCOPED_TRACE("padded");
      compare_all(model.graph, rows->symbol, ModelRun::load(model, cpu).value().run(inputs).value(), plain, exact);
    }
    {
      SCOPED_TRACE("optimized");
      ImportedModel optimized = optimize(import_model(path_).value());
      const auto proven = find_sequence_rows(optimized.graph, read_weight_numbers(optimized.weights));
      ASSERT_TRUE(proven.ok()) << proven.status().message();
      EXPECT_EQ(proven->symbol, rows->symbol);
      EXPECT_EQ(proven->masked, rows->masked);  // else it would be padded in another way
      compare_all(model.graph, rows->symbol, ModelRun::load(optimized, cpu).value().run(inputs).value(), plain, exact);
    }
    SCOPED_TRACE("poisoned");
    PoisonWriter poison(model, rows->symbol);
    for (NamedTensor& flags : poison.write()) inputs.push_back(std::move(flags));
    ASSERT_GT(poison.count(), 10U);
    const auto poisoned = ModelRun::load(model, cpu).value().run(inputs).value();
    compare_all(model.graph, rows->symbol, poisoned, plain, exact);
  }

 private:
  // Masks become numbers to add, as for a GPU's attention.
  static ImportedModel optimize(ImportedModel model) {
    pass_runs::Cpu cpu;
    Capabilities capabilities = cpu.capabilities();
    capabilities.attention_adds_masks = true;
    pass_runs::optimize(cpu, level_passes(Level::kConservative), model, capabilities);
    return model;
  }

  static std::vector<NamedTensor> lengthen(const ir::Graph& graph, const std::vector<NamedTensor>& inputs,
                                           const SequenceRows& rows) {
    std::vector<NamedTensor> longer;
    for (NamedTensor input : inputs) {
      const auto found = std::ranges::find(graph.inputs, input.name, &ir::GraphInput::name);
      const Padding padding = rows.masked && !is_floating(input.tensor.dtype()) ? Padding::kZero : Padding::kLast;
      for (const std::size_t axis : axes_along(graph.at(found->value), rows.symbol)) {
        input.tensor = pad_axis(input.tensor, axis, kLonger, padding).value();
      }
      longer.push_back(std::move(input));
    }
    return longer;
  }

  static void compare_all(const ir::Graph& graph, const std::string& symbol, const std::vector<NamedTensor>& given,
                          const std::vector<NamedTensor>& plain, const std::vector<NamedTensor>& exact) {
    ASSERT_EQ(given.size(), plain.size());
    for (std::size_t index = 0; index < plain.size(); ++index) {
      SCOPED_TRACE(plain[index].name);
      const auto output = std::ranges::find(graph.outputs, plain[index].name, &ir::GraphOutput::name);
      Tensor own = given[index].tensor;
      for (const std::size_t axis : axes_along(graph.at(*output->value.value_id()), symbol)) {
        own = cut_axis(own, axis, kOwn).value();
      }
      const auto verdict = compare(own.contiguous_copy().value(), plain[index].tensor, exact[index].tensor,
                                   default_tolerance(plain[index].tensor.dtype()));
      ASSERT_TRUE(verdict.ok()) << verdict.status().message();
      EXPECT_TRUE(verdict->passed) << verdict->reason;
    }
  }

  std::string path_;
  std::uint64_t seed_;
};

// Otherwise the others would be skipped and show nothing.
class SequenceProofs : public testing::Test {
 public:
  explicit SequenceProofs(std::vector<std::string> paths) : paths_(std::move(paths)) {}
  void TestBody() override {
    std::size_t known = 0;
    std::size_t masked = 0;
    for (const std::string& path : paths_) {
      const ImportedModel model = import_model(path).value();
      const auto rows = find_sequence_rows(model.graph, read_weight_numbers(model.weights));
      if (rows.ok()) ++known;
      if (rows.ok() && rows->masked) ++masked;
    }
    EXPECT_GE(known, 20U) << "of " << paths_.size() << " models";
    EXPECT_GE(masked, 6U);
  }

 private:
  std::vector<std::string> paths_;
};

}  // namespace

void register_sequence_tests(const std::vector<std::pair<std::string, std::string>>& models, std::uint64_t seed) {
  std::vector<std::string> paths;
  for (const auto& [name, path] : models) {
    paths.push_back(path);
    testing::RegisterTest("Sequences", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [path = path, seed]() -> testing::Test* { return new ZooSequences(path, seed); });
  }
  testing::RegisterTest("Proofs", "OfModelsWithSequences", nullptr, nullptr, __FILE__, __LINE__,
                        [=]() -> testing::Test* { return new SequenceProofs(paths); });
}

}  // namespace kpt
