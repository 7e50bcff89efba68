#include "model_cases.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace kpt::model_cases {
namespace {

constexpr double kFewElements = 64;
constexpr double kFewFactor = 3;

}  // namespace

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

void Judge::add(const NamedTensor& output, const Tensor& baseline, const Tensor& reference) {
  ++compared_;
  const std::string word = tolerance_of(entry_, output.name);
  DType type = output.tensor.dtype();
  if (word == "bf16") type = DType::kBFloat16;
  if (word == "fp16") type = DType::kFloat16;
  const auto verdict = word == "exact" ? compare_equal(output.tensor, baseline)
                                       : compare(output.tensor, baseline, reference, default_tolerance(type));
  ASSERT_TRUE(verdict.ok()) << output.name << ": " << verdict.status().message();
  const auto count = static_cast<double>(output.tensor.element_count());
  const bool is_measured = verdict->passed || verdict->candidate_rmse > 0;  // else it is not equal, or NaN
  if (count > kFewElements || !is_measured) {
    EXPECT_TRUE(verdict->passed) << output.name << ": " << verdict->reason;
    return;
  }
  Few& few = few_[output.name];
  few.candidate += count * verdict->candidate_rmse * verdict->candidate_rmse;
  few.baseline += count * verdict->baseline_rmse * verdict->baseline_rmse;
  if (!verdict->passed) few.missed = verdict->reason;
}

void Judge::finish() const {
  EXPECT_GT(compared_, 0U) << "nothing was compared";
  for (const auto& [name, few] : few_) {
    const double ratio = std::sqrt(few.candidate / few.baseline);
    EXPECT_TRUE(few.missed.empty() || ratio <= kFewFactor)
        << name << ": " << few.missed << "; in all cases together " << ratio << " times PyTorch's";
  }
}

}  // namespace kpt::model_cases
