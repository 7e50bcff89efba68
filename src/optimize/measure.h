// Which of two forms of a model is faster, on one input, as they are used: warm, alternating, so that whatever else the
// machine does meets both alike.
#pragma once

#include <vector>

#include "kpt/status.h"
#include "kpt/tensor.h"
#include "validation/model_run.h"

namespace kpt {

struct PairedTimes {
  double first_ms = 0;  // medians
  double second_ms = 0;
  double ratio = 1;  // first / second, the median over pairs: above 1 the second is faster
  double low = 1;    // the ratio's interval of 95 %, by the order of the pairs' ratios
  double high = 1;
  std::size_t pairs = 0;

  // Beyond noise and beyond what matters.
  bool second_is_slower() const { return pairs > 0 && high < 0.99; }
  bool second_is_faster() const { return pairs > 0 && low > 1.02; }
};

// Runs pairs until `seconds` have passed (at least 5 pairs, at most 400), after two runs of each that do not count.
// `resident`: inputs are copied to this device once and outputs stay there, so that the work alone is timed. Null: from
// host to host, as callers run models.
Result<PairedTimes> measure_pair(ModelRun& first, ModelRun& second, const std::vector<NamedTensor>& inputs,
                                 double seconds, Device* resident = nullptr);

// The device on which single nodes and kernels are compared with tensors that lie there. Null where the host's memory
// is the device's, and where programs are made of whole graphs.
Device* find_resident(const PlacedDevice& placed);

}  // namespace kpt
