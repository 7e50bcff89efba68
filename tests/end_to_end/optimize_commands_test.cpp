// kpt optimize, validate and explain on files of the tree, as a user types them.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sanitizers.h"
#include "importer/model_file.h"
#include "program.h"
#include "support/tree_paths.h"
#include "tensor_files/tensor_file.h"

namespace kpt::testing {
namespace {

using ::testing::HasSubstr;

TEST(OptimizeCommand, WrongNamesAreSentencesAndUsageIsTwo) {
  EXPECT_EQ(run_kpt({"optimize", golden("conv_norm"), "--level", "wild"}).exit_code, 2);
  const ProgramRun pass = run_kpt({"optimize", golden("conv_norm"), "--disable-pass", "fold_constant"});
  EXPECT_EQ(pass.exit_code, 1);
  EXPECT_THAT(pass.err, HasSubstr("did you mean 'fold_constants'?"));
  const ProgramRun both =
      run_kpt({"optimize", golden("conv_norm"), "--disable-pass", "fold_constants", "--enable-pass", "fold_constants"});
  EXPECT_THAT(both.err, HasSubstr("both enabled and disabled"));
  EXPECT_EQ(run_kpt({"optimize", "/no/such.pt2"}).exit_code, 1);
}

#if defined(KPT_HAS_TORCH)
class Scratch {
 public:
  Scratch() : path_(std::filesystem::temp_directory_path() / ("kpt_" + std::to_string(std::random_device{}()))) {
    std::filesystem::create_directories(path_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// Before the work, and without a mark on what is there; a name is as good as another for the same file.
TEST(OptimizeCommand, AResultDoesNotTakeThePlaceOfWhatIsReadOrIsNoFile) {
  const Scratch scratch;
  const std::string model = scratch.file("m.pt2");
  std::filesystem::copy_file(golden("conv_norm"), model);
  std::filesystem::create_symlink(model, scratch.file("link.html"));
  const auto before = std::filesystem::last_write_time(model);
  const auto refused = [&](std::vector<std::string> command, const char* why) {
    const ProgramRun run = run_kpt(command);
    EXPECT_EQ(run.exit_code, 1) << run.out;
    EXPECT_EQ(run.out, "") << "nothing was done";
    EXPECT_THAT(run.err, HasSubstr(why)) << command[0];
  };
  refused({"optimize", model, "-o", model}, "is read and would be overwritten");
  refused({"compile", model, "--target", "nvidia:sm_90", "-o", model}, "is read and would be overwritten");
  refused({"bench", model, "--html", scratch.file("link.html")}, "is read and would be overwritten");
  refused({"bench", model, "--save-baseline", model}, "is read and would be overwritten");
  refused({"profile", model, "--trace", model}, "is read and would be overwritten");
  refused({"run", model, "--outputs", model}, "is not a known kind of tensor file");
  refused({"optimize", model, "-o", "/dev/null"}, "device, pipe or socket");
  refused({"bench", model, "--html", scratch.file("")}, "Is a directory");
  refused({"run", model, "--outputs", model + "/below.npz"}, "Not a directory");
  EXPECT_EQ(std::filesystem::last_write_time(model), before);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  const ProgramRun nothing =
      run_kpt({"compile", model, "--target", "nvidia:sm_90", "--check", "-o", scratch.file("m.kpt")});
  EXPECT_EQ(nothing.exit_code, 2) << "it would write nothing";
}

TEST(OptimizeCommand, WritesAnArtifactThatValidateAndExplainTake) {
  const Scratch scratch;
  const std::string out = scratch.file("m.kpt");
  const ProgramRun run =
      run_kpt({"optimize", golden("conv_norm"), "--level", "conservative", "-o", out, "--no-measure", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err << run.out;
  const auto report = run.json();
  EXPECT_TRUE(report.at("passed").get<bool>());
  EXPECT_EQ(report.at("level"), "conservative");
  EXPECT_EQ(report.at("written"), out);
  EXPECT_TRUE(report.at("speed").is_null()) << "nothing was measured";
  EXPECT_FALSE(report.at("gate").at("outputs").empty());
  EXPECT_TRUE(report.at("tolerance").is_null());
  ASSERT_TRUE(std::filesystem::exists(out));

  const ProgramRun validated = run_kpt({"validate", golden("conv_norm"), out, "--devices", "cpu", "--json"});
  EXPECT_EQ(validated.exit_code, 0) << validated.err << validated.out;
  const auto validation = validated.json();
  ASSERT_EQ(validation.at("contenders").size(), 2U);
  EXPECT_EQ(validation.at("contenders")[1].at("label"), "m.kpt on cpu");
  EXPECT_TRUE(validation.at("contenders")[0].at("determinism").at("repeatable").get<bool>());
  EXPECT_FALSE(validation.at("pairs").empty());

  const ProgramRun explained = run_kpt({"explain", out});
  EXPECT_EQ(explained.exit_code, 0) << explained.err;
  EXPECT_THAT(explained.out, HasSubstr("what it did"));
  EXPECT_THAT(explained.out, HasSubstr("operator"));
  const auto nodes = run_kpt({"explain", golden("conv_norm"), "--json"}).json().at("nodes");
  ASSERT_FALSE(nodes.empty());
  EXPECT_GE(nodes[0].at("microseconds").get<double>(), 0);
}

TEST(OptimizeCommand, LastTokenLogitsPassTheGateTheSelfCheckAndValidate) {
  const Scratch scratch;
  const std::string out = scratch.file("tied.kpt");
  for (const char* level : {"conservative", "balanced"}) {
    const ProgramRun run = run_kpt({"optimize", golden("tied"), "--level", level, "--enable-pass", "last_token_logits",
                                    "-o", out, "--no-measure", "--no-cache", "--json"});
    ASSERT_EQ(run.exit_code, 0) << run.err << run.out;
    EXPECT_TRUE(run.json().at("gate").at("last_position").get<bool>());
    // [2, 3, 7] of the model.
    const ProgramRun ran = run_kpt({"run", out, "--json"});
    ASSERT_EQ(ran.exit_code, 0) << "loading asks the stored samples: " << ran.err;
    const auto logits = ran.json().at("outputs")[0];
    EXPECT_EQ(logits.at("dims"), nlohmann::ordered_json({2, 1, 7})) << logits.dump();
    const ProgramRun validated = run_kpt({"validate", golden("tied"), out, "--devices", "cpu", "--json"});
    EXPECT_EQ(validated.exit_code, 0) << validated.err << validated.out;
    const auto validation = validated.json();
    EXPECT_TRUE(validation.at("contenders")[1].at("gate").at("last_position").get<bool>());
    for (const auto& pair : validation.at("pairs")) EXPECT_TRUE(pair.at("max_difference").is_number()) << pair.dump();
  }
  // Where nobody asks for it, outputs are held against all positions.
  const auto plain = run_kpt({"optimize", golden("tied"), "--level", "conservative", "-o", out, "--no-measure",
                              "--no-cache", "--json"})
                         .json();
  EXPECT_FALSE(plain.at("gate").at("last_position").get<bool>());
}

TEST(ExplainCommand, TimesHoldTheLongestNodesAgainstMeasuredLimits) {
  const auto times = run_kpt({"explain", golden("conv_norm"), "--times", "--runs", "3", "--json"}).json().at("times");
  EXPECT_EQ(times.at("runs"), 3);
  ASSERT_FALSE(times.at("peaks").empty());
  EXPECT_EQ(times.at("peaks")[0].at("type"), "float32");
  EXPECT_GT(times.at("peaks")[0].at("gflops").get<double>(), 0);
  double share = 0;
  double last = 1e18;
  bool arithmetic = false;
  for (const auto& node : times.at("nodes")) {
    EXPECT_LE(node.at("median_microseconds").get<double>(), last) << "longest first";
    last = node.at("median_microseconds").get<double>();
    share += node.at("share").get<double>();
    if (node.at("operator") != "aten.conv2d.default") continue;
    arithmetic = true;
    EXPECT_GT(node.at("flops").get<double>(), 0);
    EXPECT_EQ(node.at("computes_in"), "float32");
    EXPECT_GT(node.at("share_of_limit").get<double>(), 0);
  }
  EXPECT_NEAR(share, 1, 1e-6);
  EXPECT_TRUE(arithmetic) << times.dump();
  const ProgramRun shown = run_kpt({"explain", golden("conv_norm"), "--times", "--runs", "2", "--top", "1"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  for (const char* word : {"measured limits", "GFLOP/s", "GB/s", "of the limit", "bound by"}) {
    EXPECT_THAT(shown.out, HasSubstr(word));
  }
  EXPECT_EQ(run_kpt({"explain", golden("conv_norm"), "--top", "3"}).exit_code, 2) << "--top is of --times";
  EXPECT_THAT(run_kpt({"explain", golden("conv_norm"), "--times", "--device", "xla:fake", "--set",
                       "pjrt.plugins=fake=" + build_dir() + "/fakes/pjrt/fake_pjrt_plugin.so"})
                  .err,
              HasSubstr("use --device cpu"));
}

// Nodes whose kernel uses instructions that cpu.isa can hide.
std::size_t count_wide_kernels(const std::string& model, const std::vector<std::string>& flags) {
  std::vector<std::string> command = {"explain", model, "--json"};
  command.insert(command.end(), flags.begin(), flags.end());
  const auto explained = run_kpt(command).json();
  std::size_t count = 0;
  for (const auto& node : explained.at("nodes")) {
    const std::string how = node.at("how").get<std::string>();
    const std::string chosen = how.substr(0, how.find("; not "));
    for (const char* word : {"BFMMLA", "SMMLA", "SDOT", "AVX-512"}) count += chosen.find(word) != std::string::npos;
  }
  return count;
}

// On every processor: what it lacks anyway cannot be assigned either.
TEST(OptimizeCommand, HiddenInstructionSetsAreAssignedToNothingAndAnswersHold) {
  const Scratch scratch;
  const std::string hide = "cpu.isa=no-bf16,no-i8mm,no-dotprod,no-avx512,no-vnni,no-amx,no-sme";
  for (const char* level : {"balanced", "aggressive"}) {
    const std::string out = scratch.file(std::string(level) + ".kpt");
    const ProgramRun run = run_kpt({"optimize", golden("linear_state"), "--level", level, "-o", out, "--no-measure",
                                    "--json", "--set", hide, "--set", "cache.dir=" + scratch.file("cache")});
    ASSERT_EQ(run.exit_code, 0) << run.err << run.out;
    const auto report = run.json();
    EXPECT_TRUE(report.at("passed").get<bool>());
    bool skipped = false;
    for (const auto& pass : report.at("passes")) {
      if (pass.at("pass") == "assign_bf16") skipped = !pass.at("skipped").get<std::string>().empty();
    }
    EXPECT_TRUE(skipped) << run.out;
    EXPECT_EQ(run_kpt({"explain", out, "--json", "--set", hide}).json().at("cpu_isa").size(), 7U);
    EXPECT_EQ(count_wide_kernels(out, {"--set", hide}), 0U);
    // Kernels are chosen when it is loaded: it runs with and without the limit.
    EXPECT_EQ(run_kpt({"validate", golden("linear_state"), out, "--devices", "cpu"}).exit_code, 0);
    EXPECT_EQ(run_kpt({"validate", golden("linear_state"), out, "--devices", "cpu", "--set", hide}).exit_code, 0);
    // Another question to the cache.
    const ProgramRun open = run_kpt({"optimize", golden("linear_state"), "--level", level, "-o", out, "--no-measure",
                                     "--json", "--set", "cache.dir=" + scratch.file("cache")});
    EXPECT_FALSE(open.json().at("from_cache").get<bool>());
    // What was made without the limit may have bfloat16 and int8 weights; their kernels are chosen by it all the same.
    const ProgramRun explained = run_kpt({"explain", out, "--set", hide});
    EXPECT_THAT(explained.out, HasSubstr("hidden by cpu.isa"));
    EXPECT_EQ(count_wide_kernels(out, {"--set", hide}), 0U);
    EXPECT_EQ(run_kpt({"validate", golden("linear_state"), out, "--devices", "cpu", "--set", hide}).exit_code, 0);
    RecordProperty(std::string(level) + "_wide_kernels", static_cast<int>(count_wide_kernels(out, {})));
  }
}

TEST(OptimizeCommand, TheSecondTimeComesFromTheCacheAndAnotherQuestionDoesNot) {
  const Scratch scratch;
  const std::vector<std::string> environment = {"KPT_CACHE_DIR=" + scratch.file("cache")};
  const auto optimize = [&](const std::string& out, std::vector<std::string> flags) {
    std::vector<std::string> command = {"optimize",        golden("conv_norm"), "-o",
                                        scratch.file(out), "--no-measure",      "--json"};
    command.insert(command.end(), flags.begin(), flags.end());
    return run_kpt(command, environment).json();
  };
  EXPECT_FALSE(optimize("a.kpt", {}).at("from_cache").get<bool>());
  const auto again = optimize("b.kpt", {});
  EXPECT_TRUE(again.at("from_cache").get<bool>());
  EXPECT_TRUE(again.at("passed").get<bool>());
  EXPECT_EQ(std::filesystem::file_size(scratch.file("a.kpt")), std::filesystem::file_size(scratch.file("b.kpt")));
  EXPECT_FALSE(optimize("c.kpt", {"--no-cache"}).at("from_cache").get<bool>());
  EXPECT_FALSE(optimize("c.kpt", {"--seed", "4"}).at("from_cache").get<bool>());
  EXPECT_FALSE(optimize("c.kpt", {"--level", "conservative"}).at("from_cache").get<bool>());
  EXPECT_FALSE(optimize("c.kpt", {"--tolerance", "0.5"}).at("from_cache").get<bool>());
}

// Folded constants are made of weights: a model that differs in them alone is another question.
TEST(OptimizeCommand, ModelsThatDifferOnlyInWeightsShareNoResult) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const Scratch scratch;
  std::vector<NamedTensor> weights;
  for (const auto& [name, tensor] : import_model(golden("conv_norm")).value().weights) {
    if (tensor.dtype() == DType::kFloat32) weights.push_back({name, tensor.contiguous_copy().value()});
  }
  ASSERT_FALSE(weights.empty());
  ASSERT_TRUE(write_tensors(scratch.file("same.safetensors"), weights).ok());
  for (float& element : weights[random() % weights.size()].tensor.elements<float>()) element += 0.5F;
  ASSERT_TRUE(write_tensors(scratch.file("other.safetensors"), weights).ok());

  const auto optimize = [&](const std::string& out, const std::vector<std::string>& flags) {
    std::vector<std::string> command = {
        "optimize",        golden("conv_norm"), "--level", "conservative", "-o",
        scratch.file(out), "--no-measure",      "--json",  "--set",        "cache.dir=" + scratch.file("cache")};
    command.insert(command.end(), flags.begin(), flags.end());
    return run_kpt(command).json().at("from_cache").get<bool>();
  };
  EXPECT_FALSE(optimize("first.kpt", {}));
  EXPECT_TRUE(optimize("same.kpt", {"--weights", scratch.file("same.safetensors")})) << "the content is the key";
  EXPECT_FALSE(optimize("other.kpt", {"--weights", scratch.file("other.safetensors")}));
  EXPECT_TRUE(optimize("again.kpt", {"--weights", scratch.file("other.safetensors")}));
  EXPECT_TRUE(optimize("back.kpt", {}));

  const auto answer = [&](const std::string& model, const std::vector<std::string>& flags) {
    std::vector<std::string> command = {"run", model, "--seed", "3", "--outputs", scratch.file("out.safetensors")};
    command.insert(command.end(), flags.begin(), flags.end());
    const ProgramRun run = run_kpt(command);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return read_tensors(scratch.file("out.safetensors")).value().at(0).tensor;
  };
  const auto greatest_difference = [](const Tensor& left, const Tensor& right) {
    double most = 0;
    for (std::size_t i = 0; i < left.elements<float>().size(); ++i) {
      most = std::max<double>(most, std::fabs(left.elements<float>()[i] - right.elements<float>()[i]));
    }
    return most;
  };
  const Tensor plain = answer(golden("conv_norm"), {});
  const Tensor changed = answer(golden("conv_norm"), {"--weights", scratch.file("other.safetensors")});
  const double apart = greatest_difference(plain, changed);
  ASSERT_GT(apart, 1e-3) << "the changed weight changes no answer";
  for (const char* name : {"first.kpt", "same.kpt", "back.kpt"}) {
    EXPECT_LT(greatest_difference(answer(scratch.file(name), {}), plain), 0.1 * apart) << name;
  }
  for (const char* name : {"other.kpt", "again.kpt"}) {
    EXPECT_LT(greatest_difference(answer(scratch.file(name), {}), changed), 0.1 * apart) << name;
  }
}

TEST(OptimizeCommand, MeasuresAndShowsATable) {
  const Scratch scratch;
  const ProgramRun run = run_kpt({"optimize", golden("linear_state"), "-o", scratch.file("m.kpt")});
  EXPECT_EQ(run.exit_code, 0) << run.err << run.out;
  for (const char* word : {"applied", "times as fast", "plain error", "the gate passed", "wrote"}) {
    EXPECT_THAT(run.out, HasSubstr(word));
  }
  EXPECT_THAT(run.err, HasSubstr("running the passes")) << "progress in plain lines";
}

// At conservative, products stay in float32, so aten has every one of them too.
TEST(OptimizeCommand, KernelsAreHeldAgainstAtensAndKept) {
#if defined(KPT_ADDRESS_SANITIZER) || defined(KPT_THREAD_SANITIZER)
  GTEST_SKIP() << "a sanitizer slows our kernels down and aten's not, so the level is dropped";
#endif
  const Scratch scratch;
  const std::string cache = "cache.dir=" + scratch.file("cache");
  const auto kernels = [&](std::vector<std::string> flags) {
    std::vector<std::string> command = {"optimize", golden("linear_state"), "-o",     scratch.file("m.kpt"),
                                        "--level",  "conservative",         "--json", "--set",
                                        cache};
    command.insert(command.end(), flags.begin(), flags.end());
    return run_kpt(command).json().at("kernels");
  };
  const auto first = kernels({"--seed", "1"});
  ASSERT_FALSE(first.empty());
  for (const auto& choice : first) {
    EXPECT_THAT(choice.at("reason").get<std::string>(), HasSubstr(" ms against ")) << choice.dump();
    EXPECT_FALSE(choice.at("nodes").empty());
  }
  std::size_t explained = 0;
  const auto report = run_kpt({"explain", scratch.file("m.kpt"), "--json"}).json();
  for (const auto& node : report.at("nodes")) {
    for (const auto& choice : first) {
      if (std::ranges::find(choice.at("nodes"), node.at("node")) == choice.at("nodes").end()) continue;
      EXPECT_THAT(node.at("why").get<std::string>(), HasSubstr(choice.at("reason").get<std::string>()));
      ++explained;
    }
  }
  EXPECT_GT(explained, 0U);
  const auto again = kernels({"--seed", "2"});
  ASSERT_EQ(again.size(), first.size());
  for (std::size_t i = 0; i < first.size(); ++i) {  // another seed measures no kernel again: the same times
    const auto times = [](const std::string& reason) { return reason.substr(0, reason.find(')')); };
    EXPECT_EQ(times(again[i].at("reason")), times(first[i].at("reason")));
  }
  EXPECT_TRUE(kernels({"--no-measure"}).empty());
}

TEST(OptimizeCommand, FlagsHaveEffects) {
  const Scratch scratch;
  const std::string out = scratch.file("m.kpt");
  const auto applied = [&](std::vector<std::string> flags) {
    std::vector<std::string> command = {"optimize", golden("sizes"), "-o", out, "--no-measure", "--json"};
    command.insert(command.end(), flags.begin(), flags.end());
    return run_kpt(command).json();
  };
  const auto all = applied({});
  const auto fewer = applied({"--disable-pass", "common_subexpressions"});
  EXPECT_EQ(fewer.at("passes").size() + 2, all.at("passes").size());  // it stands twice
  EXPECT_EQ(applied({"--tolerance", "0.25"}).at("tolerance").get<double>(), 0.25);
  EXPECT_EQ(applied({"--draws", "5", "--seed", "9"}).at("gate").at("draws").size(), 5U);
  EXPECT_EQ(applied({"--seed", "9"}).at("seed"), 9);
  const std::string folder = scratch.file("dump");
  ASSERT_TRUE(applied({"--dump-after", folder, "--check-each"}).at("passed").get<bool>());
  std::size_t changed = 0;
  for (const auto& pass : all.at("passes")) {
    if (pass.at("changes").get<int>() > 0) ++changed;
  }
  std::size_t files = 0;
  if (std::filesystem::exists(folder)) {
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++files;
  }
  EXPECT_EQ(files, changed);
}

TEST(OptimizeCommand, ARefusalIsExitCodeThreeAndWritesNothing) {
  const Scratch scratch;
  const std::string out = scratch.file("m.kpt");
  // No float32 model is as exact as fp64: a bound of 0 refuses every one.
  const std::vector<std::string> command = {
      "optimize", golden("conv_norm"), "--level", "aggressive", "--tolerance", "0", "-o", out};
  const ProgramRun run = run_kpt(command);
  EXPECT_EQ(run.exit_code, 3) << run.err << run.out;
  EXPECT_FALSE(std::filesystem::exists(out));
  EXPECT_THAT(run.out, HasSubstr("plain error"));
  EXPECT_THAT(run.out, HasSubstr("REFUSED: the relative error against fp64"));
  EXPECT_THAT(run.out, HasSubstr("tolerance 0 set by the user"));
  EXPECT_THAT(run.out, HasSubstr("the model itself does not meet this tolerance"));
}

// A narrow type at the level that allows none, by the user's own word: the plain model passes, the pass does not.
TEST(OptimizeCommand, ARefusalNamesThePassThatBrokeItAndTheNode) {
  const Scratch scratch;
  const std::string out = scratch.file("m.kpt");
  std::size_t refused = 0;
  for (const std::string pass : {"quantize_int8", "assign_bf16"}) {
    SCOPED_TRACE(pass);
    const std::vector<std::string> command = {
        "optimize", golden("linear_state"), "--level",   "conservative", "--enable-pass", pass, "-o",
        out,        "--no-measure",         "--no-cache"};
    const ProgramRun run = run_kpt(command);
    if (run.exit_code == 0) {  // what this processor cannot multiply fast is left out
      EXPECT_THAT(run.out, HasSubstr(pass + ": the target multiplies"));
      std::filesystem::remove(out);
      continue;
    }
    ++refused;
    EXPECT_EQ(run.exit_code, 3) << run.err << run.out;
    EXPECT_FALSE(std::filesystem::exists(out));
    EXPECT_THAT(run.out, HasSubstr("REFUSED: "));
    EXPECT_THAT(run.out, HasSubstr("nothing is written"));
    EXPECT_THAT(run.out, HasSubstr("pass " + pass + " broke it: node 'linear' (kpt.linear"));
    std::vector<std::string> checked = command;
    checked.emplace_back("--check-each");
    const ProgramRun rest = run_kpt(checked);
    EXPECT_EQ(rest.exit_code, 0) << rest.err << rest.out;
    EXPECT_THAT(rest.out, HasSubstr(pass + ": taken back, output '"));
    EXPECT_TRUE(std::filesystem::exists(out));
    std::filesystem::remove(out);
  }
  if (refused == 0) GTEST_SKIP() << "this processor has fast products in float32 alone";
}

TEST(OptimizeCommand, ATightBoundKeepsLayersPreciseAndNamesThem) {
  const Scratch scratch;
  const auto optimize = [&](std::vector<std::string> flags) {
    std::vector<std::string> command = {"optimize",  golden("linear_state"), "--level",      "aggressive",
                                        "-o",        scratch.file("m.kpt"),  "--no-measure", "--json",
                                        "--no-cache"};
    command.insert(command.end(), flags.begin(), flags.end());
    return run_kpt(command).json();
  };
  const auto loose = optimize({});
  const auto needs = run_kpt({"inspect", scratch.file("m.kpt"), "--json"}).json().at("artifact").at("needs");
  if (needs.empty()) GTEST_SKIP() << "this processor has fast products in float32 alone";
  const auto tight = optimize({"--tolerance", "1e-5"});
  EXPECT_TRUE(tight.at("passed").get<bool>());
  EXPECT_EQ(tight.at("tolerance"), 1e-5);
  EXPECT_GT(tight.at("not_quantized").size() + tight.at("kept_precise").size(),
            loose.at("not_quantized").size() + loose.at("kept_precise").size());
  EXPECT_TRUE(run_kpt({"inspect", scratch.file("m.kpt"), "--json"}).json().at("artifact").at("needs").empty());
}

TEST(OptimizeCommand, TheFileSaysWhatMadeItFastAndALesserProcessorIsTold) {
  const Scratch scratch;
  const std::string out = scratch.file("m.kpt");
  const auto report = run_kpt({"optimize", golden("linear_state"), "--level", "aggressive", "-o", out, "--no-measure",
                               "--json", "--no-cache"})
                          .json();
  std::vector<std::string> expected;
  for (const auto& pass : report.at("passes")) {
    if (pass.at("changes") == 0) continue;
    if (pass.at("pass") == "quantize_int8") expected.emplace_back("fast-int8");
    if (pass.at("pass") == "assign_bf16") expected.emplace_back("fast-bfloat16");
  }
  EXPECT_EQ(run_kpt({"inspect", out, "--json"}).json().at("artifact").at("needs"), expected);
  const ProgramRun here = run_kpt({"run", out});
  EXPECT_EQ(here.exit_code, 0) << here.err;
  EXPECT_EQ(here.err.find("fast products"), std::string::npos) << here.err;
  if (expected.empty()) GTEST_SKIP() << "this processor has fast products in float32 alone";
  const std::string hide = "cpu.isa=no-bf16,no-i8mm,no-dotprod,no-avx512,no-vnni,no-amx,no-sme";
  for (const char* command : {"run", "explain"}) {
    const ProgramRun lesser = run_kpt({command, out, "--set", hide});
    EXPECT_EQ(lesser.exit_code, 0) << lesser.err;
    EXPECT_THAT(lesser.err, HasSubstr("m.kpt was made for a CPU with fast products in "));
    EXPECT_THAT(lesser.err, HasSubstr("the answers are as right and come later"));
  }
}

TEST(OptimizeCommand, OneFileOfInputsIsFilledUpWithGeneratedDrawsThatAreNamed) {
  const Scratch scratch;
  const std::string inputs = scratch.file("mine.npz");
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const Tensor x = Tensor::empty(DType::kFloat32, {{4, 4}}).value();
  for (float& value : x.elements<float>()) value = std::normal_distribution<float>()(random);
  const std::vector<NamedTensor> tensors = {{"x", x}};
  ASSERT_TRUE(write_tensors(inputs, tensors).ok());
  const auto draws = [&](const std::string& command, std::vector<std::string> flags) {
    std::vector<std::string> all = {command, golden("linear_state"), "--inputs", inputs, "--json"};
    if (command == "optimize") all.insert(all.end(), {"-o", scratch.file("m.kpt"), "--no-measure", "--no-cache"});
    all.insert(all.end(), flags.begin(), flags.end());
    const auto json = run_kpt(all).json();
    return (command == "optimize" ? json : json.at("contenders")[0]).at("gate").at("draws");
  };
  for (const char* command : {"optimize", "validate"}) {
    const auto usual = draws(command, {"--seed", "7"});
    ASSERT_EQ(usual.size(), 3U);
    EXPECT_EQ(usual[0], inputs);
    EXPECT_THAT(usual[1].get<std::string>(), HasSubstr("seed 7"));
    EXPECT_THAT(usual[2].get<std::string>(), HasSubstr("seed 8"));
    EXPECT_EQ(draws(command, {"--draws", "1"}).size(), 1U);
  }
}
#endif

}  // namespace
}  // namespace kpt::testing
