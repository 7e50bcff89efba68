#include "model_cases.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "known_corners.h"

namespace kpt::model_cases {
namespace {

constexpr double kFewElements = 64;
constexpr double kFewFactor = 3;
constexpr double kMostOff = 0.1;  // of the output's size, in any case
constexpr double kNear = 3;       // times what the rule allows
constexpr std::size_t kMostNear = 1;

}  // namespace

double root_mean_square(const Tensor& reference) {
  const Tensor dense = reference.contiguous_copy().value();
  double squares = 0;
  for (const double value : dense.elements<double>()) squares += std::isfinite(value) ? value * value : 0;
  return std::sqrt(squares / static_cast<double>(std::max<std::int64_t>(1, dense.element_count())));
}

Json read_index(const std::string& folder) {
  std::ifstream stream(folder + "/index.json");
  if (stream) return Json::parse(stream);
  Json index = {{"seed", "none"}, {"torch", std::filesystem::path(folder).filename()}, {"models", Json::array()}};
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".pt2") continue;
    const std::string stem = file.path().stem();
    index["models"].push_back({{"name", stem}, {"file", stem + ".pt2"}, {"cases_file", stem + ".cases.safetensors"}});
  }
  return index;
}

Tensors select(const std::vector<NamedTensor>& all, const std::string& prefix) {
  Tensors selected;
  for (const NamedTensor& named : all) {
    if (named.name.starts_with(prefix)) selected.emplace(named.name.substr(prefix.size()), named.tensor);
  }
  return selected;
}

std::size_t count_cases(const std::vector<NamedTensor>& tensors) {
  std::size_t count = 0;
  while (!select(tensors, "case" + std::to_string(count) + "/").empty()) ++count;
  return count;
}

void add_views(const Json& entry, std::size_t index, const Tensors& bases, Tensors& inputs) {
  if (!entry.contains("strided_inputs")) return;
  for (const auto& [name, view] : entry["strided_inputs"][index].items()) {
    const auto base = bases.find(name);
    ASSERT_NE(base, bases.end()) << "no storage for the strided input " << name;
    const std::vector<std::int64_t> dims = view["sizes"];
    const std::vector<std::int64_t> strides = view["strides"];
    const auto tensor = Tensor::from_buffer(base->second.buffer(), base->second.dtype(), dims, strides,
                                            base->second.offset() + view["offset"].get<std::int64_t>());
    ASSERT_TRUE(tensor.ok()) << tensor.status().message();
    inputs.insert_or_assign(name, *tensor);
  }
}

std::string tolerance_of(const Json& entry, const std::string& output) {
  if (entry.contains("tolerance")) return entry["tolerance"];
  return entry.contains("outputs") ? entry["outputs"][output]["tolerance"].get<std::string>() : "";
}

Result<Comparison> Judge::compare_one(const std::string& name, const Tensor& given, const Tensor& baseline,
                                      const Tensor& reference) const {
  return tolerance_of(entry_, name) == "exact"
             ? compare_equal(given, baseline)
             : compare(given, baseline, reference, default_tolerance(judged_type(name, given)));
}

DType Judge::judged_type(const std::string& name, const Tensor& given) const {
  const std::string word = tolerance_of(entry_, name);
  if (word == "bf16") return DType::kBFloat16;
  if (word == "fp16") return DType::kFloat16;
  return given.dtype();
}

bool Judge::is_corner(const NamedTensor& output, const Tensor& baseline, const Tensor& reference) {
  if (!allows_corners_) return false;
  const auto mended = put_ones_for_nan(output.tensor, baseline);
  if (!mended) return false;
  const auto verdict = compare_one(output.name, *mended, baseline, reference);
  if (!verdict.ok() || !verdict->passed) return false;
  if (corners_.insert(output.name).second) {
    std::printf("known corner: %s is NaN where PyTorch's CPU gives 1\n", output.name.c_str());
  }
  return true;
}

// Thousands of outputs of random graphs are compared, and now and then PyTorch rounds one of them luckily.
bool Judge::is_near(const NamedTensor& output, const Comparison& verdict) {
  if (!verdict.allowed_rmse || verdict.candidate_rmse > kNear * *verdict.allowed_rmse) return false;
  std::printf("near: %s: %s\n", output.name.c_str(), verdict.reason.c_str());
  near_.insert(output.name.substr(0, output.name.find('_')));
  return true;
}

void Judge::add(const NamedTensor& output, const Tensor& baseline, const Tensor& reference) {
  ++compared_;
  const auto verdict = compare_one(output.name, output.tensor, baseline, reference);
  ASSERT_TRUE(verdict.ok()) << output.name << ": " << verdict.status().message();
  if (!verdict->passed && is_corner(output, baseline, reference)) return;
  const auto count = static_cast<double>(output.tensor.element_count());
  const bool is_measured = verdict->candidate_rmse > 0;  // else it is right, not equal, or NaN
  const double size = is_measured ? root_mean_square(reference) : 0;
  // An error there is looked at, not averaged.
  const bool is_graph = entry_.contains("graphs");
  // A GPU's library may round a sum before a bias is added, which small elements show where the two cancel.
  const DType type = judged_type(output.name, output.tensor);
  const bool is_half = type == DType::kFloat16 || type == DType::kBFloat16;
  const bool is_close = verdict->candidate_rmse <= default_tolerance(type).relative * size;
  if (allows_corners_ && is_half && is_measured && is_close) return;
  if (!verdict->passed && is_graph && is_near(output, *verdict)) return;
  const bool by_itself = count > kFewElements || is_graph || size == 0;
  if (by_itself || verdict->candidate_rmse > kMostOff * size) {
    EXPECT_TRUE(verdict->passed) << output.name << ": " << verdict->reason;
    return;
  }
  const auto part = [&](double error) { return count * (error / size) * (error / size); };
  Few& few = few_[output.name];
  few.candidate += part(verdict->candidate_rmse);
  few.baseline += part(verdict->baseline_rmse);
  if (!verdict->passed) few.missed = verdict->reason;
}

void Judge::finish() const {
  EXPECT_GT(compared_, 0U) << "nothing was compared";
  EXPECT_LE(near_.size(), kMostNear) << "random graphs are off by a little more than the rule allows";
  EXPECT_LE(corners_.size(), kMostNanForOne) << "outputs are NaN where PyTorch's CPU gives 1";
  for (const auto& [name, few] : few_) {
    const double ratio = std::sqrt(few.candidate / few.baseline);
    EXPECT_TRUE(few.missed.empty() || ratio <= kFewFactor)
        << name << ": " << few.missed << "; in all cases together " << ratio << " times PyTorch's";
  }
}

}  // namespace kpt::model_cases
