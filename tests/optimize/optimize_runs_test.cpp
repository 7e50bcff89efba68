// What options of an optimization do to a whole model.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <random>
#include <system_error>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/backend_list.h"
#include "api/model_loading.h"
#include "artifact/model_hash.h"
#include "base/files.h"
#include "compile_cache/entry_format.h"
#include "hardware_fixture.h"
#include "ir/text.h"
#include "kpt/errors.h"
#include "kpt/model.h"
#include "optimize/cached.h"
#include "passes/pass_testing.h"

namespace kpt::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// One product beside its input, so that coarse weights leave the cosine that `aggressive` asks for.
constexpr const char* kProduct = R"(kpt_graph 1
symbol s0 in 1..64
parameter w: float32[64, 64]
input x: float32[s0, 64]
linear: float32[s0, 64] = aten.linear.default(input=%x, weight=%w)
add: float32[s0, 64] = aten.add.Tensor(self=%linear, other=%x)
output %add "y"
)";

class OptimizeRuns : public ::testing::Test {
 protected:
  static PlacedDevice find_cpu() {
    const Environment environment = Environment::from_process();
    const auto context = make_backend_context(load_config({}, environment).value(), environment).value();
    return find_runnable_device("cpu", context).value();
  }

  ImportedModel make_model(const char* text) const {
    ImportedModel model;
    model.graph = ir::read_graph(text).value();
    model.weights = pass_testing::draw_weights(model.graph, seed_);
    return model;
  }

  OptimizeOptions make_options(Level level, std::vector<std::string> enabled) const {
    OptimizeOptions options;
    options.level = level;
    options.enabled = std::move(enabled);
    options.measure = false;
    options.draws.seed = seed_;
    options.draws.sizes = {{"s0", 16}};
    return options;
  }

  OptimizeOutcome optimize(const char* text, const OptimizeOptions& options) const {
    auto outcome = optimize_model(make_model(text), options, cpu_, cpu_);
    EXPECT_TRUE(outcome.ok()) << outcome.status().message();
    if (!outcome.ok()) return {};
    for (const OutputVerdict& verdict : outcome->report.gate.worst()) EXPECT_TRUE(verdict.passed) << verdict.reason;
    return std::move(*outcome);
  }

  static std::vector<std::string> targets(const OptimizeOutcome& outcome) {
    std::vector<std::string> names;
    if (!outcome.artifact) return names;
    for (const ir::Node& node : outcome.artifact->targets[0].graph.nodes) names.push_back(node.target);
    return names;
  }

  unsigned seed_ = std::random_device()();
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, ::testing::Message() << "seed " << seed_};
  PlacedDevice cpu_ = find_cpu();
};

TEST_F(OptimizeRuns, AQuantizationThatIsAskedForWinsOverTheLevels) {
  const OptimizeOutcome four = optimize(kProduct, make_options(Level::kAggressive, {"quantize_int4"}));
  EXPECT_THAT(targets(four), Contains("kpt.linear_int4.default"));
  EXPECT_EQ(four.report.notes, std::vector<std::string>{});
  const OptimizeOutcome eight = optimize(kProduct, make_options(Level::kAggressive, {"quantize_weights_int8"}));
  EXPECT_THAT(targets(eight), Contains("kpt.linear_weight_int8.default"));
}

TEST_F(OptimizeRuns, APassThatIsAskedForAndChangesNothingIsTold) {
  constexpr const char* kOddWidth = R"(kpt_graph 1
parameter w: float32[33, 33]
input x: float32[16, 33]
linear: float32[16, 33] = aten.linear.default(input=%x, weight=%w)
add: float32[16, 33] = aten.add.Tensor(self=%linear, other=%x)
output %add "y"
)";
  OptimizeOptions options = make_options(Level::kConservative, {"quantize_int4", "last_token_logits"});
  options.draws.sizes.clear();
  const OptimizeOutcome outcome = optimize(kOddWidth, options);
  EXPECT_THAT(outcome.report.notes, Contains(HasSubstr("quantize_int4 was asked for by name and changed nothing: ")));
  EXPECT_THAT(outcome.report.notes, Contains(HasSubstr("its width is no multiple of 32")));
  EXPECT_THAT(outcome.report.notes, Contains(HasSubstr("last_token_logits was asked for by name and changed nothing: "
                                                       "the graph has nothing for it")));
}

// Without a reference, or where the model itself cannot run, there is nothing to hold answers against.
TEST_F(OptimizeRuns, WhatCannotBeOptimizedIsATypedErrorThatSaysWhy) {
  const auto refusal = [this](const std::string& node) {
    const std::string text = "kpt_graph 1\ninput x: float32[2, 8]\n" + node + "output %y \"y\"\n";
    OptimizeOptions options = make_options(Level::kConservative, {});
    options.draws.sizes.clear();
    return optimize_model(make_model(text.c_str()), options, cpu_, cpu_).status();
  };
  const Status no_reference = refusal("y: float32[2, 4] = kpt.glu.default(input=%x, activation=\"silu\")\n");
  EXPECT_THROW(throw_status(no_reference), ModelOptimizationError) << no_reference.to_string();
  EXPECT_THAT(no_reference.message(),
              HasSubstr("the model cannot be optimized: node 'y' (kpt.glu.default) has no fp64"));
  const Status no_operator = refusal("y: float32[2, 8] = aten.nothing.default(self=%x)\n");
  EXPECT_THROW(throw_status(no_operator), ModelOptimizationError) << no_operator.to_string();
  EXPECT_THAT(no_operator.message(), HasSubstr("1 of 1 nodes cannot run on cpu"));
}

// The sums of so many int8 products would leave 32 bits.
TEST_F(OptimizeRuns, AProductTooDeepForInt8StaysOutOfIt) {
  const char* const text = R"(kpt_graph 1
parameter w: float32[2, 131104]
input x: float32[1, 131104]
y: float32[1, 2] = aten.linear.default(input=%x, weight=%w)
output %y "y"
)";
  const auto& types = cpu_.device->target().capabilities().matrix_dtypes;
  if (std::ranges::find(types, DType::kInt8) == types.end()) GTEST_SKIP() << "this processor has no fast int8 products";
  OptimizeOptions options = make_options(Level::kAggressive, {});
  options.draws.sizes.clear();
  const OptimizeOutcome outcome = optimize(text, options);
  EXPECT_TRUE(outcome.artifact.has_value());
  EXPECT_THAT(targets(outcome), Not(Contains("kpt.linear_int8.default")));
  const auto record = std::ranges::find(outcome.report.passes, "quantize_int8", &PassRecord::pass);
  ASSERT_NE(record, outcome.report.passes.end());
  EXPECT_THAT(record->details, Contains(HasSubstr("stays as it is: sums of so many int8 products do not fit")));
}

constexpr const char* kNoOperator = "aten.nothing.default";
// Gives the sum an operator that nobody has.
const Pass kSpoils = {"spoils", "", false, [](const Capabilities&) { return Support{}; },
                      [](ir::Graph& graph, PassContext&) -> Result<PassStats> {
                        graph.nodes.back().target = kNoOperator;
                        return PassStats{1, {}};
                      }};

TEST_F(OptimizeRuns, APassAfterWhichTheModelCannotRunIsTakenBackAndNamed) {
  for (const bool measure : {false, true}) {
    OptimizeOptions options = make_options(Level::kConservative, {});
    options.added = {{&kSpoils, "fuse_linear"}};
    options.measure = measure;
    options.seconds_per_pair = 0.01;
    const OptimizeOutcome outcome = optimize(kProduct, options);
    EXPECT_TRUE(outcome.artifact.has_value());
    const auto spoils = std::ranges::find(outcome.report.passes, "spoils", &PassRecord::pass);
    ASSERT_NE(spoils, outcome.report.passes.end());
    EXPECT_EQ(spoils->changes, 0U);
    EXPECT_THAT(spoils->skipped, HasSubstr("taken back, the model cannot run after it: "));
    EXPECT_THAT(spoils->skipped, HasSubstr("aten.nothing"));
    EXPECT_THAT(targets(outcome), Not(Contains(kNoOperator)));
  }
}

int spoiled = 0;
// A sign that is wrong the first time, and nothing at all when the culprit is looked for.
const Pass kFailsLater = {"fails_later", "", false, [](const Capabilities&) { return Support{}; },
                          [](ir::Graph& graph, PassContext&) -> Result<PassStats> {
                            if (spoiled++ > 0) return Status(StatusCode::kIo, "a second time is too often");
                            for (ir::Node& node : graph.nodes) {
                              if (node.target == "aten.add.Tensor") node.target = "aten.sub.Tensor";
                            }
                            return PassStats{1, {}};
                          }};

TEST_F(OptimizeRuns, ARefusalIsToldWhereTheCulpritCannotBeFound) {
  constexpr const char* kSum = R"(kpt_graph 1
input x: float32[4, 64]
input y: float32[4, 64]
add: float32[4, 64] = aten.add.Tensor(self=%x, other=%y)
output %add "z"
)";
  spoiled = 0;
  OptimizeOptions options = make_options(Level::kConservative, {});
  options.draws.sizes.clear();
  options.added = {{&kFailsLater, "fuse_linear"}};
  const auto outcome = optimize_model(make_model(kSum), options, cpu_, cpu_);
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_FALSE(outcome->report.passed());
  EXPECT_FALSE(outcome->artifact.has_value());
  EXPECT_FALSE(outcome->report.gate.outputs.empty()) << "the table is shown";
  ASSERT_TRUE(outcome->report.culprit.has_value());
  EXPECT_THAT(outcome->report.culprit->sentence(), HasSubstr("a second time is too often"));
}

TEST_F(OptimizeRuns, SamplesOfTheLastTokenHoldItsReference) {
  constexpr const char* kLogits = R"(kpt_graph 1
symbol s0 in 2..64
parameter w: float32[40, 8]
input x: float32[2, s0, 8]
linear: float32[2, s0, 40] = aten.linear.default(input=%x, weight=%w)
output %linear "logits"
)";
  for (const Level level : {Level::kConservative, Level::kBalanced, Level::kAggressive}) {
    const OptimizeOutcome outcome = optimize(kLogits, make_options(level, {"last_token_logits"}));
    ASSERT_TRUE(outcome.artifact.has_value());
    EXPECT_TRUE(outcome.report.gate.last_position);
    ASSERT_FALSE(outcome.artifact->samples.empty());
    for (const ArtifactSample& sample : outcome.artifact->samples) {
      ASSERT_EQ(sample.reference.size(), 1U);
      EXPECT_EQ(sample.outputs[0].tensor.dims(), (Dims{2, 1, 40}));
      EXPECT_EQ(sample.reference[0].tensor.dims(), (Dims{2, 1, 40}));
    }
  }
}

// 16 MiB of logits and twice as much in fp64.
TEST_F(OptimizeRuns, LargeOutputsKeepTheirEndAsASample) {
  constexpr const char* kLogits = R"(kpt_graph 1
parameter w: float32[65536, 8]
input x: float32[1, 64, 8]
linear: float32[1, 64, 65536] = aten.linear.default(input=%x, weight=%w)
output %linear "logits"
)";
  const TemporaryFolder folder;
  const auto path = folder.path() / "model.kpt";
  OptimizeOptions options = make_options(Level::kConservative, {});
  options.draws.sizes.clear();
  options.draws.count = 1;
  const auto written = optimize_to_file(make_model(kLogits), options, cpu_, cpu_, 1, path, nullptr);
  ASSERT_TRUE(written.ok()) << written.status().message();
  ASSERT_TRUE(written->written);
  EXPECT_THAT(written->report.notes,
              Contains(HasSubstr("keeps the end of 'logits', [1, 42, 65536] of [1, 64, 65536]")));
  Artifact artifact = read_artifact(path).value();
  ASSERT_EQ(artifact.samples.size(), 1U);
  const Dims end = {1, 42, 65536};
  EXPECT_EQ(artifact.samples[0].outputs[0].tensor.dims(), end);
  EXPECT_EQ(artifact.samples[0].reference[0].tensor.dims(), end);
  const auto loaded = load_model(path);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  // A file that gives other answers.
  for (auto& [name, weight] : artifact.targets[0].weights) {
    weight = weight.contiguous_copy().value();
    for (float& element : weight.elements<float>()) element = -element;
  }
  ASSERT_TRUE(write_artifact(folder.path() / "changed.kpt", artifact).ok());
  EXPECT_EQ(load_model(folder.path() / "changed.kpt").status().code(), StatusCode::kValidation);
}

TEST_F(OptimizeRuns, LosersAreKeptBySizesNotBySeeds) {
  const TemporaryFolder folder;
  CompileCache cache = CompileCache::open(folder.path() / "cache", 1 << 30).value();
  const ImportedModel model = make_model(kProduct);
  const auto tunings_after = [&](std::int64_t size, std::uint64_t seed) {
    OptimizeOptions options = make_options(Level::kConservative, {});
    options.measure = true;
    options.seconds_per_pair = 0.01;
    options.draws.sizes = {{"s0", size}};
    options.draws.seed = seed;
    const auto written = optimize_to_file(model, options, cpu_, cpu_, 1, folder.path() / "model.kpt", &cache);
    EXPECT_TRUE(written.ok()) << written.status().message();
    const std::vector<CacheEntry> entries = cache.list().value();
    return std::ranges::count(entries, "tuning", &CacheEntry::kind);
  };
  EXPECT_EQ(tunings_after(1, seed_), 1);
  EXPECT_EQ(tunings_after(1, seed_ + 1), 1) << "another seed takes what was measured";
  EXPECT_EQ(tunings_after(32, seed_), 2) << "other sizes are measured anew";
}

// Another process with the same -o: what it wrote there is not ours to keep.
TEST_F(OptimizeRuns, AFileThatAnotherReplacesMeanwhileIsNotKeptAsOurs) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "model.kpt";
  CompileCache cache = CompileCache::open(folder.path() / "cache", 1 << 30).value();
  const ImportedModel model = make_model(kProduct);
  const OptimizeOptions other = make_options(Level::kConservative, {});
  ASSERT_TRUE(optimize_to_file(model, other, cpu_, cpu_, 1, folder.path() / "other.kpt", nullptr).ok());
  const auto spare = folder.path() / "spare.kpt";
  std::atomic<bool> ends = false;
  std::thread writer([&] {
    while (!ends) {
      std::error_code ignored;
      std::filesystem::create_hard_link(folder.path() / "other.kpt", spare, ignored);
      std::filesystem::rename(spare, path, ignored);
    }
  });
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    OptimizeOptions options = make_options(Level::kBalanced, {});
    options.draws.seed = seed;
    const auto made = optimize_to_file(model, options, cpu_, cpu_, 1, path, &cache);
    EXPECT_TRUE(made.ok()) << made.status().message();
    const auto again = optimize_to_file(model, options, cpu_, cpu_, 1, folder.path() / "again.kpt", &cache);
    EXPECT_TRUE(again.ok()) << again.status().message();
    if (!again.ok()) continue;
    EXPECT_TRUE(again->from_cache);
    EXPECT_EQ(again->report.level, Level::kBalanced);
  }
  ends = true;
  writer.join();
}

TEST_F(OptimizeRuns, WhatTheCacheHoldsOfAnotherLevelOrModelIsNotTaken) {
  const TemporaryFolder folder;
  CompileCache cache = CompileCache::open(folder.path() / "cache", 1 << 30).value();
  const ImportedModel model = make_model(kProduct);
  ImportedModel other = model;
  other.weights = pass_testing::draw_weights(other.graph, seed_ + 1);
  const auto run = [&](const ImportedModel& each, Level level, const char* name) {
    return optimize_to_file(each, make_options(level, {}), cpu_, cpu_, 1, folder.path() / name, &cache).value();
  };
  const auto list = [&] {
    std::vector<std::string> digests;
    for (const CacheEntry& entry : cache.list().value()) {
      if (entry.kind == "optimize") digests.push_back(entry.digest);
    }
    return digests;
  };
  run(model, Level::kBalanced, "balanced.kpt");
  const std::string digest = list().at(0);
  run(model, Level::kConservative, "conservative.kpt");
  run(other, Level::kBalanced, "other.kpt");
  for (const char* name : {"conservative.kpt", "other.kpt"}) {
    SCOPED_TRACE(name);
    const std::string foreign = read_text_file(folder.path() / name, 1 << 24).value();
    const std::string entry = compile_cache::print_header(digest, "optimize", foreign) + foreign;
    ASSERT_TRUE(write_file_atomically(cache.folder() / (digest + ".entry"), entry).ok());
    const WrittenOptimization made = run(model, Level::kBalanced, "again.kpt");
    EXPECT_FALSE(made.from_cache);
    EXPECT_EQ(made.report.level, Level::kBalanced);
    const Artifact artifact = read_artifact(folder.path() / "again.kpt").value();
    EXPECT_EQ(artifact.source_sha256, hash_model(model.graph, model.weights).value());
    EXPECT_TRUE(run(model, Level::kBalanced, "again.kpt").from_cache) << "what was made has taken its place";
  }
}

}  // namespace
}  // namespace kpt::testing
