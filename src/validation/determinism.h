// Whether a model gives the same answer for the same question: asked twice, with another number of threads, and with
// other neighbours in its batch.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/backend_context.h"
#include "validation/draws.h"

namespace kpt {

// Differences are the greatest over all outputs and elements, relative to the root mean square of their output; 0 means
// the same bits.
struct Determinism {
  double twice = 0;
  std::optional<double> threads;     // nothing where the device has only one thread to use
  std::string threads_text;          // "2 and 1 threads"
  std::optional<double> neighbours;  // the first row of a batch, its neighbours replaced by copies of itself
  std::optional<double> alone;       // the first row of a batch against a batch of one
  std::string batch_note;            // why a figure is missing

  bool repeatable() const { return twice == 0; }
};

// The first draw whose batch has two rows or more, which is what other neighbours need; 0 when none has.
std::size_t find_draw_of_rows(const ImportedModel& model, const std::vector<Draw>& draws);

// `draw` with a batch of two or more, if the model takes one. Changes the process's number of threads while it works
// and sets it back to that of `context`.
// `stored_program`: as for ModelRun::load().
Result<Determinism> check_determinism(const ImportedModel& model, const Draw& draw, const BackendContext& context,
                                      const std::string& device, std::string_view stored_program = {});

}  // namespace kpt
