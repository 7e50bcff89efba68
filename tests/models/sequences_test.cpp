// A sequence of five runs as it is, and with three further positions, as a device would run it; the first five must
// pass the accuracy rule against it. Then once more with poison in these three: NaN behind every operator, and a large
// number in the keys and values of attention, and in what is multiplied by a mask and added up. There every kernel
// multiplies by zero, which only finite numbers survive (runtime/sequence_rows.h). In bfloat16 it is the large number
// everywhere: see rows_test.cpp. All of it with the model as exported and with the optimized one. On a GPU every one of
// these runs is also captured and replayed.
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
constexpr std::int64_t kBucket = 6;  // the next length that sequences are padded to
constexpr double kHuge = 16384;

constexpr std::string_view kPoisoned[] = {
    "aten.add.Tensor",         "aten.addmm.default",     "aten.cat.default",
    "aten.cos.default",        "aten.embedding.default", "aten.gelu.default",
    "aten.layer_norm.default", "aten.linear.default",    "aten.mean.dim",
    "aten.mul.Tensor",         "aten.pow.Tensor_Scalar", "aten.rsqrt.default",
    "aten.silu.default",       "aten.sin.default",       "aten.scaled_dot_product_attention.default",
    "aten.tanh.default",       "kpt.add_norm.default",   "kpt.attention.default",
    "kpt.glu.default",         "kpt.linear.default",     "kpt.rotary.default",
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
    if (target == "aten.scaled_dot_product_attention.default" || target == "kpt.attention.default") {
      names = {"key", "value"};
    }
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

// One set of inputs with sequences of a length, and what they give as they are.
struct Case {
  std::vector<NamedTensor> inputs;
  std::vector<NamedTensor> plain;
  std::vector<NamedTensor> exact;
};

PlacedDevice find_device(const std::string& name) {
  const Environment environment = Environment::from_process();
  return find_runnable_device(name, *make_backend_context(*load_config({}, environment), environment)).value();
}

class ZooSequences : public testing::Test {
 public:
  ZooSequences(std::string path, std::uint64_t seed, std::string device)
      : path_(std::move(path)), seed_(seed), device_(std::move(device)) {}

  void TestBody() override {
    cpu_ = find_device("cpu");
    here_ = find_device(device_);
    model_ = import_model(path_).value();
    const auto rows = find_sequence_rows(model_.graph, read_weight_numbers(model_.weights));
    if (!rows.ok()) GTEST_SKIP() << rows.status().message();
    rows_ = *rows;
    SCOPED_TRACE(testing::Message() << "seed " << seed_);
    std::vector<Case> cases = {make_case(kOwn, seed_)};
    if (captures()) cases.push_back(make_case(kOwn, seed_ + 1));
    {
      SCOPED_TRACE("padded");
      run_padded(model_, {}, cases);
    }
    {
      SCOPED_TRACE("poisoned");
      run_poisoned(model_, cases, 10);
    }
    SCOPED_TRACE("optimized");
    const ImportedModel optimized = optimize();
    const auto proven = find_sequence_rows(optimized.graph, read_weight_numbers(optimized.weights));
    ASSERT_TRUE(proven.ok()) << proven.status().message();
    EXPECT_EQ(proven->symbol, rows_.symbol);
    EXPECT_EQ(proven->masked, rows_.masked);  // else it would be padded in another way
    run_padded(optimized, {}, cases);
    if (captures()) run_in_buckets(optimized);
    SCOPED_TRACE("poisoned");
    run_poisoned(optimized, cases, 5);
  }

 private:
  bool captures() const { return device_ != "cpu"; }

  Case make_case(std::int64_t length, std::uint64_t seed) const {
    const Draw draw = make_draws(model_, {1, seed, {{rows_.symbol, length}}, {}}).value().front();
    return {draw.inputs, ModelRun::load(model_, here_).value().run(draw.inputs).value(),
            load_fp64_form(model_, cpu_).value().run(draw.inputs).value()};
  }

  // On the CPU masks become numbers to add, as for a GPU's attention.
  ImportedModel optimize() const {
    pass_runs::Cpu cpu;
    Capabilities capabilities = here_.device->target().capabilities();
    if (!captures()) capabilities.attention_adds_masks = true;
    ImportedModel model = model_;
    pass_runs::optimize(cpu, level_passes(Level::kConservative), model, capabilities);
    return model;
  }

  // The second run of a device that captures is recorded and the third replays the record; inputs take turns, so that
  // what a record gives cannot be what is left of an earlier run.
  void run_padded(const ImportedModel& model, const std::vector<NamedTensor>& flags, const std::vector<Case>& cases) {
    ModelRun run = ModelRun::load(model, here_).value();
    for (std::size_t round = 0; round < (captures() ? 3U : 1U); ++round) {
      SCOPED_TRACE(testing::Message() << "round " << round);
      const Case& given = cases[round % cases.size()];
      std::vector<NamedTensor> inputs = lengthen(given.inputs);
      inputs.insert(inputs.end(), flags.begin(), flags.end());
      compare_all(run.run(inputs).value(), kOwn, given);
    }
    if (captures()) expect_captured(run.loaded());
  }

  void run_poisoned(ImportedModel model, const std::vector<Case>& cases, std::size_t least) {
    PoisonWriter poison(model, rows_.symbol);
    const std::vector<NamedTensor> flags = poison.write();
    ASSERT_GT(poison.count(), least);
    run_padded(model, flags, cases);
  }

  // As users run it: sequences of five and of six share one record, that of six.
  void run_in_buckets(const ImportedModel& model) {
    SCOPED_TRACE("in buckets");
    const detail::BatchPolicy policy{.split = false, .buckets = false, .sequences = true};
    const auto loaded = detail::LoadedModel::load(model, *here_.backend, *here_.device, here_.backend, policy).value();
    Session session = detail::start_session(loaded).value();
    for (const std::int64_t length : {kOwn, kBucket, kOwn}) {
      SCOPED_TRACE(testing::Message() << "length " << length);
      const Case given = make_case(length, seed_ + 2);
      RunReport report;
      RunOptions options;
      options.report = &report;
      compare_all(session.run(given.inputs, options).value(), length, given);
      EXPECT_EQ(report.padded_positions, kBucket - length);
    }
    expect_captured(*loaded);
  }

  static void expect_captured(const detail::LoadedModel& model) {
    const std::string runs = model.executable().describe_runs();
    EXPECT_NE(runs.find("; 1 captured so far"), std::string::npos) << runs;
  }

  std::vector<NamedTensor> lengthen(const std::vector<NamedTensor>& inputs) const {
    std::vector<NamedTensor> longer;
    for (NamedTensor input : inputs) {
      const auto found = std::ranges::find(model_.graph.inputs, input.name, &ir::GraphInput::name);
      const Padding padding = rows_.masked && !is_floating(input.tensor.dtype()) ? Padding::kZero : Padding::kLast;
      for (const std::size_t axis : axes_along(model_.graph.at(found->value), rows_.symbol)) {
        input.tensor = pad_axis(input.tensor, axis, kLonger, padding).value();
      }
      longer.push_back(std::move(input));
    }
    return longer;
  }

  // The first positions, as many as the case has.
  void compare_all(const std::vector<NamedTensor>& given, std::int64_t length, const Case& expected) const {
    ASSERT_EQ(given.size(), expected.plain.size());
    for (std::size_t index = 0; index < given.size(); ++index) {
      SCOPED_TRACE(expected.plain[index].name);
      const Tensor& plain = expected.plain[index].tensor;
      const auto output = std::ranges::find(model_.graph.outputs, expected.plain[index].name, &ir::GraphOutput::name);
      Tensor own = given[index].tensor;
      for (const std::size_t axis : axes_along(model_.graph.at(*output->value.value_id()), rows_.symbol)) {
        own = cut_axis(own, axis, length).value();
      }
      const auto verdict =
          compare(own.contiguous_copy().value(), plain, expected.exact[index].tensor, default_tolerance(plain.dtype()));
      ASSERT_TRUE(verdict.ok()) << verdict.status().message();
      EXPECT_TRUE(verdict->passed) << verdict->reason;
    }
  }

  std::string path_;
  std::uint64_t seed_;
  std::string device_;
  PlacedDevice cpu_;
  PlacedDevice here_;
  ImportedModel model_;
  SequenceRows rows_;
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

void register_sequence_tests(const std::vector<std::pair<std::string, std::string>>& models, std::uint64_t seed,
                             const std::string& device) {
  std::vector<std::string> paths;
  for (const auto& [name, path] : models) {
    paths.push_back(path);
    testing::RegisterTest(
        "Sequences", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
        [path = path, seed, device]() -> testing::Test* { return new ZooSequences(path, seed, device); });
  }
  testing::RegisterTest("Proofs", "OfModelsWithSequences", nullptr, nullptr, __FILE__, __LINE__,
                        [=]() -> testing::Test* { return new SequenceProofs(paths); });
}

}  // namespace kpt
