// The files of exported test models (README.md): their cases, and which rule holds for an output.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kpt/status.h"
#include "kpt/tensor.h"
#include "numerics/accuracy.h"

namespace kpt::model_cases {

using Json = nlohmann::json;
using Tensors = std::map<std::string, Tensor>;

// index.json; for a folder without one: every X.pt2 with its X.cases.safetensors.
Json read_index(const std::string& folder);

// The tensors of one part of one case: "case0/input/" → {"ids": …}.
Tensors select(const std::vector<NamedTensor>& all, const std::string& prefix);
std::size_t count_cases(const std::vector<NamedTensor>& tensors);

// Random graphs also take views: the file holds the storage and index.json how to look at it.
void add_views(const Json& entry, std::size_t index, const Tensors& bases, Tensors& inputs);

// The size of an output: of its finite elements, in float64.
double root_mean_square(const Tensor& reference);

// Which row of the accuracy rule holds for an output: "fp32", "fp16", "bf16", or "exact".
std::string tolerance_of(const Json& entry, const std::string& output);

// Holds the outputs of one model to that rule, as GoogleTest expectations. Of a few elements PyTorch's error may be
// small by luck: where such an output of a model misses the rule, its errors in all cases together decide, at the end.
// Of the random graphs of a file one may miss it by a little. On an NVIDIA GPU, their known corners (known_corners.h)
// are let pass.
class Judge {
 public:
  explicit Judge(const Json& entry, bool on_nvidia = false)
      : entry_(entry), allows_corners_(on_nvidia && entry.contains("graphs")) {}
  bool allows_corners() const { return allows_corners_; }
  std::size_t compared() const { return compared_; }
  void add(const NamedTensor& output, const Tensor& baseline, const Tensor& reference);
  void finish() const;

 private:
  struct Few {
    double candidate = 0;  // squares of errors against fp64, as parts of the output's size
    double baseline = 0;
    std::string missed;  // why, in the last case that missed the rule
  };
  Result<Comparison> compare_one(const std::string& name, const Tensor& given, const Tensor& baseline,
                                 const Tensor& reference) const;
  DType judged_type(const std::string& name, const Tensor& given) const;
  // Whether it fails by a known corner alone, which is noted then.
  bool is_corner(const NamedTensor& output, const Tensor& baseline, const Tensor& reference);

  // Whether it is off by little more than the rule allows, which is noted then; of one graph in a file that may be.
  bool is_near(const NamedTensor& output, const Comparison& verdict);

  const Json& entry_;
  bool allows_corners_;
  std::map<std::string, Few> few_;
  std::set<std::string> corners_;  // outputs
  std::set<std::string> near_;     // graphs
  std::size_t compared_ = 0;
};

}  // namespace kpt::model_cases
