// The accuracy gate: whether a candidate may take the place of a model. Candidate and plain run are held against the
// model's own fp64 run on several draws of inputs, output by output.
//
// Rules by level (docs/how_to/is_my_model_still_right.md explains them):
//   conservative  numerics/accuracy.h: close to the plain run, or at most twice its error against fp64
//   balanced      that, or at most 3 × the error of a plain bf16 run of the same model (bf16_form.h); where zeros would
//                 be within that too, with a cosine with fp64 of at least 0.9
//   aggressive    cosine with fp64 at least 0.99, the length of the output within a tenth of fp64's, and the user's
//                 bound on the relative error where one is set
// Integers, bools and complex numbers must be equal to the plain run's at every level. NaN and infinity may stand only
// where the plain run or fp64 has them; where fp64 alone has no number, the same rules hold with the plain run's in its
// place, for these elements by themselves. Buffers and inputs that a model writes count as outputs.
//
// Where a mask leaves positions out (padding.h), these rules hold at the kept positions; of the others only this is
// asked: no NaN or infinity where the plain run and fp64 have a number. The verdict says so and shows the error over
// all.
//
// An output of fewer than 64 elements says little: the plain run's error may be small there by luck, and a right
// candidate then looks wrong. Where such outputs alone fail by the size of their error, they are run on 16 further
// draws, and it decides whether over all draws together the candidate's error is at most 3 × the plain run's (balanced:
// or the bf16 run's), and on none of them more than that and a tenth of fp64's root mean square there. Not at
// aggressive, for models that write buffers, nor where one fails on inputs that the user gave.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "numerics/accuracy.h"
#include "passes/pipeline.h"
#include "validation/bf16_form.h"
#include "validation/draws.h"
#include "validation/held_runs.h"
#include "validation/model_run.h"
#include "validation/padding.h"

namespace kpt {

struct GateOptions {
  Level level = Level::kConservative;
  // Set only by an explicit --tolerance. conservative, balanced: takes the place of the type's own relative and
  // absolute tolerance. aggressive: a further bound, on the root mean square error relative to fp64's root mean square.
  std::optional<double> tolerance;
  // The candidate may give an output for the last position of one axis only (pass last_token_logits): it is held
  // against that position of the model's (last_position.h).
  bool last_position = false;
  DrawOptions draws = {};  // as the draws were made; further ones are made alike
};

// That an output was judged at some of its positions only.
struct KeptPositions {
  std::string mask;  // the input that says which
  std::size_t kept = 0;
  std::size_t all = 0;
  double error_over_all = 0;  // root mean square of the candidate against fp64, padding included
};

// One output on one draw.
struct OutputVerdict {
  std::string output;
  std::size_t draw = 0;
  std::string dtype;
  bool passed = false;
  double candidate_error = 0;        // root mean square, against fp64
  double plain_error = 0;            // likewise
  std::optional<double> bf16_error;  // likewise, of the plain bf16 run, where the level asks for it
  // Up to which candidate_error the rule lets it pass. Nothing where no such bound decided: it passed beyond it since
  // every element is close, cosine and length decided and the user set no bound, it was judged over several draws, NaN.
  std::optional<double> allowed_error;
  double max_difference = 0;  // candidate against plain run
  double cosine = 1;          // candidate with fp64
  std::string rule;           // that decided: "equal", "tolerance", "bf16", "cosine", "form"
  std::string reason;         // one clause when it failed
  std::optional<KeptPositions> positions;
  std::optional<std::size_t> draws_together;  // it failed alone and was judged over so many draws
};

struct GateReport {
  Level level = Level::kConservative;
  std::optional<double> tolerance;
  bool last_position = false;      // GateOptions::last_position
  std::string bf16_run;            // how the bf16 run was made, or why there is none; empty where none is needed
  std::vector<std::string> draws;  // their origins
  std::vector<std::string> notes;  // draws that were left out, and why
  std::vector<OutputVerdict> outputs;

  bool passed() const;
  // For every output, its failed draw with the greatest error, else the draw with the greatest.
  std::vector<OutputVerdict> worst() const;
};

// Holds the draws with the plain, fp64 and bf16 results, so that many candidates can be judged. A model that writes
// buffers is reset before the first draw, and the draws are its steps.
class Gate {
 public:
  // Runs the plain model on `device` and fp64 on `cpu`. Generated draws that the plain model cannot run are left out
  // with a note. Fails with kUnsupported when the model has no fp64 form, and when no draw can be run.
  static Result<Gate> prepare(const ImportedModel& model, std::vector<Draw> draws, const GateOptions& options,
                              const PlacedDevice& device, const PlacedDevice& cpu);

  // A candidate that cannot be run fails here; one that is wrong is a report that has not passed.
  Result<GateReport> judge(ModelRun& candidate) const;
  Result<GateReport> judge(const ImportedModel& candidate) const;

  const GateOptions& options() const { return options_; }
  const PlacedDevice& device() const { return device_; }
  const std::vector<Draw>& draws() const { return runs_.draws; }
  // How the bf16 run was made; nothing where there is none beside the plain run.
  std::optional<Bf16Way> bf16_way() const { return bf16_way_; }

  const std::vector<std::vector<NamedTensor>>& reference() const { return runs_.reference; }  // by draw, fp64

  // One tensor by the rules of the level; the building stone of judge(), also for values inside a model.
  OutputVerdict judge_tensor(const Tensor& candidate, const Tensor& plain, const Tensor& reference,
                             const Tensor* bf16) const;

 private:
  using Outputs = std::vector<std::vector<NamedTensor>>;  // by draw

  Gate(GateOptions options, PlacedDevice device) : options_(std::move(options)), device_(std::move(device)) {}
  // Where fp64 has a number wherever plain run and candidate have one.
  OutputVerdict judge_elements(const Tensor& candidate, const Tensor& plain, const Tensor& reference,
                               const Tensor* bf16) const;
  // The elements `without` a reference are judged by themselves, the plain run's numbers being theirs.
  Result<OutputVerdict> judge_without_reference(const Tensor& candidate, const Tensor& plain, const Tensor& reference,
                                                const Tensor* bf16, const std::vector<bool>& without) const;
  Status run_bf16(const ImportedModel& model);
  Status look_for_padding(const ir::Graph& graph, ModelRun& reference);
  // What an output on one draw is held against, in the candidate's form.
  struct Held {
    Tensor plain;
    Tensor reference;
    std::optional<Tensor> bf16;
    std::optional<Tensor> mask;  // where it leaves out positions of this output
  };
  // `held` itself, or its last position.
  Result<Tensor> in_form_of(const Tensor& candidate, const Tensor& held) const;
  Result<Held> find_held(const Tensor& candidate, std::size_t draw, std::size_t index) const;
  // At the kept positions alone; nothing where all count.
  Result<std::optional<OutputVerdict>> judge_kept(const Tensor& candidate, const Held& held) const;
  Result<OutputVerdict> judge_output(const Tensor& candidate, std::size_t draw, std::size_t index) const;

  // Judges outputs of a few elements that failed on more draws; `given` is what the candidate gave on the first ones.
  Status look_again(ModelRun& candidate, Outputs given, GateReport& report) const;
  // Why one output is refused over the first and the further draws together; empty when it passes.
  Result<std::string> judge_together(const Outputs& given, const HeldRuns& further, std::size_t index) const;

  GateOptions options_;
  PlacedDevice device_;
  DType compute_ = DType::kFloat32;  // the narrowest floating type but FP8 that weights have and results are rounded to
  HeldRuns runs_;
  std::shared_ptr<FurtherRuns> further_;  // null where there are none
  std::optional<Padding> padding_;
  std::string bf16_run_;
  std::optional<Bf16Way> bf16_way_;
};

}  // namespace kpt
