// Errors inside a model: every value that a candidate and the model both compute, held against fp64 in the order of the
// graph. Values correspond by name; what only one of the two has is passed over.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "validation/agreement.h"
#include "validation/gate.h"

namespace kpt {

struct LayerError {
  std::string node;  // of the candidate's graph
  std::string target;
  std::string value;   // its result
  std::string source;  // the user's line of Python that the value comes from, where the file knows it
  OutputVerdict verdict;
  double excess = 0;  // error over what the rule allows, roughly; 0 when it passed
};

// A value that two forms of a model both compute, each on its device.
struct LayerDifference {
  std::string node;  // of the first form's graph
  std::string target;
  std::string value;
  Agreement agreement;
};

struct PlacedForm {
  const ImportedModel& model;
  const PlacedDevice& device;
};

// Runs all forms with their values observed, on one draw (and for models with buffers on all before it). `gate` was
// prepared for `model` and says which rule holds; `device` is where the candidate runs, `cpu` where fp64 does.
Result<std::vector<LayerError>> compare_layers(const ImportedModel& model, const ImportedModel& candidate,
                                               const Gate& gate, std::size_t draw, const PlacedDevice& device,
                                               const PlacedDevice& cpu);

// Two forms against each other, likewise; in the order of the first one's graph.
Result<std::vector<LayerDifference>> compare_layers(const PlacedForm& first, const PlacedForm& second,
                                                    const std::vector<Draw>& draws, std::size_t draw);

// What a form computes for the values of these names on one draw; those that no node of it makes are left out.
Result<std::map<std::string, Tensor, std::less<>>> observe_values(const PlacedForm& form,
                                                                  const std::set<std::string, std::less<>>& names,
                                                                  const std::vector<Draw>& draws, std::size_t draw);

// The first one that matters: rounding makes values near their limit fail by a little, a fault by orders of magnitude;
// failures a thousand times smaller than the greatest are passed over. Nothing when all passed.
std::optional<std::size_t> find_first_divergence(const std::vector<LayerError>& layers);

}  // namespace kpt
