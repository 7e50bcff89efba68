#include "validation/gate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "ir/figures.h"
#include "passes/promote_to_fp64.h"
#include "validation/last_position.h"

namespace kpt {
namespace {

constexpr std::int64_t kFewElements = 64;
constexpr double kFewFactor = 3;
constexpr double kMostOff = 0.1;

// Root mean square over the finite elements.
struct Sizes {
  double candidate = 0;
  double reference = 0;
};

Result<Sizes> measure(const Tensor& candidate, const Tensor& reference) {
  KPT_ASSIGN_OR_RETURN(const Tensor wide, promote_to_fp64(candidate));
  KPT_ASSIGN_OR_RETURN(const Tensor dense, wide.contiguous_copy());
  KPT_ASSIGN_OR_RETURN(const Tensor exact, reference.contiguous_copy());
  const auto x = dense.elements<double>();
  const auto r = exact.elements<double>();
  Sizes sizes;
  std::size_t count = 0;
  for (std::size_t index = 0; index < x.size(); ++index) {
    if (!std::isfinite(x[index]) || !std::isfinite(r[index])) continue;
    sizes.candidate += x[index] * x[index];
    sizes.reference += r[index] * r[index];
    ++count;
  }
  const double divisor = std::max<double>(1, static_cast<double>(count));
  return Sizes{std::sqrt(sizes.candidate / divisor), std::sqrt(sizes.reference / divisor)};
}

// Whether a node gives numbers that it was given, none of them rounded.
bool only_moves(const ir::Graph& graph, const ir::Node& node) {
  constexpr std::array<std::string_view, 5> kMoving = {"aten.clone.", "aten.embedding.", "aten.gather.", "aten.index.",
                                                       "aten.index_select."};
  const auto is_it = [&](std::string_view start) { return node.target.starts_with(start); };
  return ir::count_node(graph, node, {}).kind == "view" || std::ranges::any_of(kMoving, is_it);
}

// The narrowest type among the weights that results are rounded to as well: a table that is widened when it is read
// makes nothing coarser. Codes of FP8 are stored, not computed in: what multiplies them has sums and results of another
// type.
DType find_compute_type(const ImportedModel& model) {
  std::set<DType> rounded;
  for (const ir::Node& node : model.graph.nodes) {
    if (only_moves(model.graph, node)) continue;
    for (const ir::Output& output : node.outputs) {
      for (const ir::ValueId id : output.values) {
        const bool tensor = id != ir::kNoValue && model.graph.at(id).kind == ir::ValueKind::kTensor;
        if (tensor) rounded.insert(model.graph.at(id).tensor.dtype);
      }
    }
  }
  DType narrowest = DType::kFloat64;
  bool any = false;
  for (const auto& [name, weight] : model.weights) {
    if (!is_floating(weight.dtype()) || element_bytes(weight.dtype()) == 1) continue;
    if (!rounded.contains(weight.dtype())) continue;
    any = true;
    if (element_bytes(weight.dtype()) < element_bytes(narrowest)) narrowest = weight.dtype();
  }
  return any ? narrowest : DType::kFloat32;
}

// The wider tolerance of the model's computing type and the output's own.
Tolerance tolerance_for(DType compute, DType output, std::optional<double> given) {
  Tolerance tolerance = default_tolerance(output);
  const Tolerance inner = default_tolerance(compute);
  if (inner.relative > tolerance.relative) tolerance = inner;
  if (given) tolerance.relative = tolerance.absolute = *given;
  return tolerance;
}

OutputVerdict refuse(OutputVerdict verdict, std::string rule, std::string reason) {
  verdict.passed = false;
  verdict.rule = std::move(rule);
  verdict.reason = std::move(reason);
  return verdict;
}

// Whether NaN and infinity stand where they may: a comparison that lets every number pass.
Result<Comparison> compare_kinds(const Tensor& candidate, const Tensor& plain, const Tensor& reference) {
  return compare(candidate, plain, reference, {1e300, 1e300, 2});
}

// Elements where candidate and plain run have a number and fp64 has none; empty where there are none.
Result<std::vector<bool>> find_without_reference(const Tensor& candidate, const Tensor& plain,
                                                 const Tensor& reference) {
  std::vector<bool> without;
  const bool floating = is_floating(candidate.dtype()) && is_floating(plain.dtype());
  if (!floating || !(candidate.dims() == plain.dims()) || !(reference.dims() == plain.dims())) return without;
  KPT_ASSIGN_OR_RETURN(const Tensor completed, complete_reference(reference, plain));
  if (completed.buffer() == reference.buffer()) return without;
  KPT_ASSIGN_OR_RETURN(const Tensor wide, promote_to_fp64(candidate));
  KPT_ASSIGN_OR_RETURN(const Tensor dense, wide.contiguous_copy());
  KPT_ASSIGN_OR_RETURN(const Tensor exact, reference.contiguous_copy());
  const auto x = dense.elements<double>();
  const auto y = completed.elements<double>();
  const auto r = exact.elements<double>();
  for (std::size_t index = 0; index < x.size(); ++index) {
    without.push_back(std::isfinite(x[index]) && std::isfinite(y[index]) && !std::isfinite(r[index]));
  }
  if (std::ranges::find(without, true) == without.end()) without.clear();
  return without;
}

Result<Tensor> take_elements(const Tensor& tensor, const std::vector<bool>& of, bool wanted) {
  KPT_ASSIGN_OR_RETURN(const Tensor dense, tensor.contiguous_copy());
  const Dims flat = {1, dense.element_count()};
  KPT_ASSIGN_OR_RETURN(const Tensor row, Tensor::from_buffer(dense.buffer(), dense.dtype(), flat,
                                                             contiguous_strides(flat), dense.offset()));
  return take_positions(row, of, wanted);
}

OutputVerdict judge_bf16(OutputVerdict verdict, const Sizes& sizes, double allowed) {
  verdict.rule = "bf16";
  verdict.passed = true;
  verdict.reason.clear();
  if (!(verdict.candidate_error <= allowed)) {
    return refuse(verdict, "bf16",
                  fmt::format("the error against fp64 is {:.3g}, {} times that of a bf16 run is {:.3g}",
                              verdict.candidate_error, kBf16Factor, allowed));
  }
  // Zeros and whatever else has nothing to do with the output are within such a bound. An output of zeros has no
  // direction.
  if (sizes.reference == 0 || allowed < sizes.reference) return verdict;
  const double cosine = sizes.candidate > 0 ? verdict.cosine : 0;
  if (cosine >= kWrongBf16Cosine) return verdict;
  verdict.allowed_error.reset();
  return refuse(verdict, "bf16",
                fmt::format("a bf16 run is as wrong as the output is large, and the cosine with fp64 is {:.4f}, at "
                            "least {} is needed",
                            cosine, kWrongBf16Cosine));
}

OutputVerdict judge_cosine(OutputVerdict verdict, const Sizes& sizes, std::optional<double> bound) {
  verdict.rule = "cosine";
  verdict.passed = true;
  if (bound) verdict.allowed_error = *bound * (sizes.reference > 0 ? sizes.reference : 1);
  if (!(verdict.cosine >= kLeastCosine)) {
    return refuse(verdict, "cosine",
                  fmt::format("the cosine with fp64 is {:.4f}, at least {} is needed", verdict.cosine, kLeastCosine));
  }
  if (!(std::fabs(sizes.candidate - sizes.reference) <= kLengthSlack * sizes.reference)) {
    return refuse(
        verdict, "cosine",
        fmt::format("its root mean square is {:.4g} where fp64 has {:.4g}", sizes.candidate, sizes.reference));
  }
  const double relative = sizes.reference > 0 ? verdict.candidate_error / sizes.reference : verdict.candidate_error;
  if (bound && !(relative <= *bound)) {
    return refuse(verdict, "cosine",
                  fmt::format("the relative error against fp64 is {:.3g}, the bound is {:.3g}", relative, *bound));
  }
  return verdict;
}

// False when the candidate is NaN or infinite where plain run and reference are numbers.
Result<bool> stays_finite(const Tensor& candidate, const Tensor& plain, const Tensor& reference) {
  if (!is_floating(candidate.dtype())) return true;
  KPT_ASSIGN_OR_RETURN(const Tensor wide, promote_to_fp64(candidate));
  KPT_ASSIGN_OR_RETURN(const Tensor wide_plain, promote_to_fp64(plain));
  KPT_ASSIGN_OR_RETURN(const Tensor a, wide.contiguous_copy());
  KPT_ASSIGN_OR_RETURN(const Tensor b, wide_plain.contiguous_copy());
  KPT_ASSIGN_OR_RETURN(const Tensor exact, reference.contiguous_copy());
  const auto x = a.elements<double>();
  const auto y = b.elements<double>();
  const auto r = exact.elements<double>();
  for (std::size_t index = 0; index < x.size(); ++index) {
    if (!std::isfinite(x[index]) && std::isfinite(y[index]) && std::isfinite(r[index])) return false;
  }
  return true;
}

// A root mean square error against fp64, over one draw or several.
class JoinedError {
 public:
  Status add(const Tensor& value, const Tensor& reference) {
    KPT_ASSIGN_OR_RETURN(const Tensor wide, promote_to_fp64(value));
    KPT_ASSIGN_OR_RETURN(const Tensor dense, wide.contiguous_copy());
    KPT_ASSIGN_OR_RETURN(const Tensor exact, reference.contiguous_copy());
    const auto x = dense.elements<double>();
    const auto r = exact.elements<double>();
    double sum = 0;
    std::size_t count = 0;
    for (std::size_t index = 0; index < x.size() && index < r.size(); ++index) {
      if (!std::isfinite(x[index]) || !std::isfinite(r[index])) continue;
      sum += (x[index] - r[index]) * (x[index] - r[index]);
      ++count;
    }
    sum_ += sum;
    count_ += count;
    last_ = count > 0 ? std::sqrt(sum / static_cast<double>(count)) : 0;
    return {};
  }
  double last() const { return last_; }  // of what was added last
  double root() const { return count_ > 0 ? std::sqrt(sum_ / static_cast<double>(count_)) : 0; }

 private:
  double sum_ = 0;
  double last_ = 0;
  std::size_t count_ = 0;
};

const Tensor* find_named(const std::vector<NamedTensor>& tensors, const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  return found != tensors.end() ? &found->tensor : nullptr;
}

// What the candidate gave for each output of the plain run, undefined where it gave nothing. By position first: two
// outputs may bear one name, and passes keep the order.
std::vector<NamedTensor> match_outputs(const std::vector<NamedTensor>& outputs, const std::vector<NamedTensor>& plain) {
  std::vector<NamedTensor> matched;
  for (std::size_t index = 0; index < plain.size(); ++index) {
    const std::string& name = plain[index].name;
    const bool in_place = index < outputs.size() && outputs[index].name == name;
    const Tensor* given = in_place ? &outputs[index].tensor : find_named(outputs, name);
    matched.push_back({name, given != nullptr ? *given : Tensor()});
  }
  return matched;
}

// Whether an output has so few elements on every draw that its error may be small by luck.
bool has_few_elements(const std::vector<std::vector<NamedTensor>>& given, std::size_t index) {
  return std::ranges::all_of(given, [index](const std::vector<NamedTensor>& outputs) {
    const Tensor& tensor = outputs[index].tensor;
    return tensor.defined() && is_floating(tensor.dtype()) && tensor.element_count() < kFewElements;
  });
}

}  // namespace

bool GateReport::passed() const {
  return !outputs.empty() && std::ranges::all_of(outputs, [](const OutputVerdict& verdict) { return verdict.passed; });
}

std::vector<OutputVerdict> GateReport::worst() const {
  std::vector<OutputVerdict> rows;
  const auto worse = [](const OutputVerdict& a, const OutputVerdict& b) {
    if (a.passed != b.passed) return !a.passed;
    return a.candidate_error > b.candidate_error || std::isnan(a.candidate_error);
  };
  for (const OutputVerdict& verdict : outputs) {
    const auto row = std::ranges::find(rows, verdict.output, &OutputVerdict::output);
    if (row == rows.end()) {
      rows.push_back(verdict);
    } else if (worse(verdict, *row)) {
      *row = verdict;
    }
  }
  return rows;
}

OutputVerdict Gate::judge_tensor(const Tensor& candidate, const Tensor& plain, const Tensor& reference,
                                 const Tensor* bf16) const {
  const auto without = find_without_reference(candidate, plain, reference);
  if (!without.ok()) return refuse({}, "form", without.status().message());
  if (without->empty()) return judge_elements(candidate, plain, reference, bf16);
  auto both = judge_without_reference(candidate, plain, reference, bf16, *without);
  return both.ok() ? std::move(*both) : refuse({}, "form", both.status().message());
}

Result<OutputVerdict> Gate::judge_without_reference(const Tensor& candidate, const Tensor& plain,
                                                    const Tensor& reference, const Tensor* bf16,
                                                    const std::vector<bool>& without) const {
  if (bf16 != nullptr && !(bf16->dims() == candidate.dims())) bf16 = nullptr;
  const auto judge = [&](bool wanted) -> Result<OutputVerdict> {
    KPT_ASSIGN_OR_RETURN(const Tensor some, take_elements(candidate, without, wanted));
    KPT_ASSIGN_OR_RETURN(const Tensor some_plain, take_elements(plain, without, wanted));
    KPT_ASSIGN_OR_RETURN(Tensor some_reference, take_elements(reference, without, wanted));
    if (wanted) {
      KPT_ASSIGN_OR_RETURN(some_reference, complete_reference(some_reference, some_plain));
    }
    if (bf16 == nullptr) return judge_elements(some, some_plain, some_reference, nullptr);
    KPT_ASSIGN_OR_RETURN(const Tensor some_bf16, take_elements(*bf16, without, wanted));
    return judge_elements(some, some_plain, some_reference, &some_bf16);
  };
  KPT_ASSIGN_OR_RETURN(OutputVerdict verdict, judge(false));
  if (!verdict.passed) return verdict;
  KPT_ASSIGN_OR_RETURN(OutputVerdict rest, judge(true));
  verdict.max_difference = std::max(verdict.max_difference, rest.max_difference);
  if (rest.passed) return verdict;
  rest.reason = "where fp64 has no number, the model's own is held against: " + rest.reason;
  return rest;
}

OutputVerdict Gate::judge_elements(const Tensor& candidate, const Tensor& plain, const Tensor& reference,
                                   const Tensor* bf16) const {
  OutputVerdict verdict;
  verdict.dtype = to_string(candidate.dtype());
  if (candidate.dtype() != plain.dtype() || !(candidate.dims() == plain.dims())) {
    return refuse(verdict, "form",
                  fmt::format("it is {} where the model gives {}", candidate.to_string(), plain.to_string()));
  }
  const Tolerance tolerance = tolerance_for(compute_, candidate.dtype(), options_.tolerance);
  const auto plainly = compare(candidate, plain, reference, tolerance);
  if (!plainly.ok()) return refuse(verdict, "form", plainly.status().message());
  verdict.candidate_error = plainly->candidate_rmse;
  verdict.plain_error = plainly->baseline_rmse;
  verdict.max_difference = plainly->max_absolute_difference;
  verdict.cosine = plainly->cosine;
  verdict.rule = is_floating(candidate.dtype()) ? "tolerance" : "equal";
  verdict.passed = plainly->passed;
  verdict.reason = plainly->reason;
  verdict.allowed_error = plainly->allowed_rmse;
  if (!is_floating(candidate.dtype())) return verdict;
  const auto kinds = compare_kinds(candidate, plain, reference);
  const auto sizes = measure(candidate, reference);
  if (!kinds.ok() || !kinds->passed || !sizes.ok()) return verdict;  // NaN where there must be none: no rule helps
  if (bf16 != nullptr) {
    const auto wide_candidate = promote_to_fp64(candidate);
    const auto wide_bf16 = promote_to_fp64(*bf16);
    if (wide_candidate.ok() && wide_bf16.ok() && wide_bf16->dims() == candidate.dims()) {
      const auto beside = compare(*wide_candidate, *wide_bf16, reference, {0, 0, kBf16Factor});
      if (beside.ok()) verdict.bf16_error = beside->baseline_rmse;
    }
  }
  const double allowed = kBf16Factor * verdict.bf16_error.value_or(0);
  if (options_.level == Level::kBalanced && verdict.bf16_error) {  // the looser of the two bounds
    const double most = std::max(verdict.allowed_error.value_or(0), allowed);
    if (!verdict.passed || verdict.candidate_error <= most) verdict.allowed_error = most;
  }
  if (options_.level == Level::kBalanced && !verdict.passed && verdict.bf16_error) {
    return judge_bf16(verdict, *sizes, allowed);
  }
  if (options_.level == Level::kAggressive && (!verdict.passed || options_.tolerance)) {
    verdict.reason.clear();
    verdict.allowed_error.reset();
    // An output of zeros has no direction: only the stricter rule can judge it.
    if (sizes->reference > 0) return judge_cosine(verdict, *sizes, options_.tolerance);
    verdict.reason = plainly->reason;
    verdict.allowed_error = plainly->allowed_rmse;
  }
  return verdict;
}

Status Gate::run_bf16(const ImportedModel& model) {
  if (element_bytes(compute_) <= 2) {
    bf16_run_ = fmt::format("the plain run itself: the model computes in {}", to_string(compute_));
    runs_.bf16 = runs_.plain;
    return {};
  }
  std::string why;
  for (const Bf16Way way : {Bf16Way::kReal, Bf16Way::kSimulated}) {
    const auto attempt = [&]() -> Status {
      KPT_ASSIGN_OR_RETURN(ImportedModel form, make_bf16_form(model, way));
      KPT_ASSIGN_OR_RETURN(ModelRun run, ModelRun::load(std::move(form), device_));
      run.run_as_written();
      KPT_ASSIGN_OR_RETURN(runs_.bf16, run_each(run, runs_.draws));
      return {};
    };
    const Status status = attempt();
    if (status.ok()) {
      bf16_way_ = way;
      bf16_run_ = bf16_way_name(way);
      if (!why.empty()) bf16_run_ += fmt::format(" (in bfloat16 it cannot run: {})", why);
      return {};
    }
    why = status.message();
  }
  bf16_run_ = fmt::format("none, so the rule of conservative holds: {}", why);
  return {};
}

Result<Gate> Gate::prepare(const ImportedModel& model, std::vector<Draw> draws, const GateOptions& options,
                           const PlacedDevice& device, const PlacedDevice& cpu) {
  Gate gate(options, device);
  gate.compute_ = find_compute_type(model);
  if (options.tolerance && !(*options.tolerance >= 0 && std::isfinite(*options.tolerance))) {
    return Status(StatusCode::kInvalidArgument, "a tolerance is a number from 0 on");
  }
  KPT_ASSIGN_OR_RETURN(ModelRun plain, ModelRun::load(model, device));
  plain.run_as_written();
  KPT_ASSIGN_OR_RETURN(gate.runs_, run_plain(plain, std::move(draws)));
  KPT_ASSIGN_OR_RETURN(ModelRun reference, load_fp64_form(model, cpu));
  KPT_ASSIGN_OR_RETURN(gate.runs_.reference, run_each(reference, gate.runs_.draws));
  KPT_RETURN_IF_ERROR(gate.look_for_padding(model.graph, reference));
  if (options.level == Level::kBalanced) KPT_RETURN_IF_ERROR(gate.run_bf16(model));
  if (!reference.is_stateful()) {
    gate.further_ = std::make_shared<FurtherRuns>(model, options.draws, device, cpu, gate.bf16_way_);
  }
  return gate;
}

Status Gate::look_for_padding(const ir::Graph& graph, ModelRun& reference) {
  const auto mask = find_attention_mask(graph);
  if (!mask || reference.is_stateful()) return {};
  for (std::size_t draw = 0; draw < runs_.draws.size() && !padding_; ++draw) {
    KPT_ASSIGN_OR_RETURN(padding_, find_padding(reference, *mask, runs_.draws[draw].inputs, runs_.reference[draw]));
  }
  return {};
}

Result<GateReport> Gate::judge(const ImportedModel& candidate) const {
  KPT_ASSIGN_OR_RETURN(ModelRun run, ModelRun::load(candidate, device_));
  return judge(run);
}

Result<Tensor> Gate::in_form_of(const Tensor& candidate, const Tensor& held) const {
  return options_.last_position ? take_last_like(held, candidate.dims()) : Result<Tensor>(held);
}

Result<Gate::Held> Gate::find_held(const Tensor& candidate, std::size_t draw, std::size_t index) const {
  const NamedTensor& plain = runs_.plain[draw][index];
  Held held;
  KPT_ASSIGN_OR_RETURN(held.plain, in_form_of(candidate, plain.tensor));
  KPT_ASSIGN_OR_RETURN(held.reference, in_form_of(candidate, runs_.reference[draw][index].tensor));
  if (!runs_.bf16.empty()) {
    KPT_ASSIGN_OR_RETURN(held.bf16, in_form_of(candidate, runs_.bf16[draw][index].tensor));
  }
  const Tensor* mask = padding_ ? find_named(runs_.draws[draw].inputs, padding_->mask) : nullptr;
  if (mask != nullptr && padding_->covers(plain.name) && has_positions_of(plain.tensor, *mask)) {
    KPT_ASSIGN_OR_RETURN(held.mask, in_form_of(candidate, *mask));
  }
  return held;
}

Result<std::optional<OutputVerdict>> Gate::judge_kept(const Tensor& candidate, const Held& held) const {
  if (!held.mask || candidate.dtype() != held.plain.dtype() || !(candidate.dims() == held.plain.dims())) {
    return std::optional<OutputVerdict>();
  }
  KPT_ASSIGN_OR_RETURN(const std::vector<bool> kept, kept_positions(*held.mask));
  const auto count = static_cast<std::size_t>(std::ranges::count(kept, true));
  if (count == 0 || count == kept.size()) return std::optional<OutputVerdict>();
  KPT_ASSIGN_OR_RETURN(const Tensor some, take_positions(candidate, kept, true));
  KPT_ASSIGN_OR_RETURN(const Tensor some_plain, take_positions(held.plain, kept, true));
  KPT_ASSIGN_OR_RETURN(const Tensor some_reference, take_positions(held.reference, kept, true));
  std::optional<Tensor> some_bf16;
  if (held.bf16) {
    KPT_ASSIGN_OR_RETURN(some_bf16, take_positions(*held.bf16, kept, true));
  }
  OutputVerdict verdict = judge_tensor(some, some_plain, some_reference, some_bf16 ? &*some_bf16 : nullptr);
  const OutputVerdict over_all = judge_tensor(candidate, held.plain, held.reference, nullptr);
  verdict.positions = {padding_->mask, count, kept.size(), over_all.candidate_error};
  if (!verdict.passed) return std::optional(std::move(verdict));
  KPT_ASSIGN_OR_RETURN(const Tensor rest, take_positions(candidate, kept, false));
  KPT_ASSIGN_OR_RETURN(const Tensor rest_plain, take_positions(held.plain, kept, false));
  KPT_ASSIGN_OR_RETURN(const Tensor rest_reference, take_positions(held.reference, kept, false));
  KPT_ASSIGN_OR_RETURN(const bool sound, stays_finite(rest, rest_plain, rest_reference));
  if (sound) return std::optional(std::move(verdict));
  return std::optional(
      refuse(verdict, verdict.rule, "it is NaN or infinite in padding where the model gives a number"));
}

Result<OutputVerdict> Gate::judge_output(const Tensor& candidate, std::size_t draw, std::size_t index) const {
  KPT_ASSIGN_OR_RETURN(const Held held, find_held(candidate, draw, index));
  KPT_ASSIGN_OR_RETURN(std::optional<OutputVerdict> at_kept, judge_kept(candidate, held));
  if (at_kept) return std::move(*at_kept);
  return judge_tensor(candidate, held.plain, held.reference, held.bf16 ? &*held.bf16 : nullptr);
}

Status Gate::look_again(ModelRun& candidate, Outputs given, GateReport& report) const {
  std::set<std::size_t> unlucky;
  for (std::size_t row = 0; row < report.outputs.size(); ++row) {
    const OutputVerdict& verdict = report.outputs[row];
    const std::size_t index = row % runs_.plain.front().size();
    if (verdict.passed) continue;
    const bool of_errors = (verdict.rule == "tolerance" || verdict.rule == "bf16") && !verdict.positions;
    const bool of_user = verdict.draw < options_.draws.given.size();          // what he gives counts by itself
    if (!of_errors || of_user || !has_few_elements(given, index)) return {};  // refused whatever the others show
    unlucky.insert(index);
  }
  if (unlucky.empty() || further_ == nullptr || options_.level == Level::kAggressive) return {};
  const auto keep = [&](const Status& status) {
    report.notes.push_back(fmt::format("no further draws could be made: {}", status.message()));
    return Status();
  };
  const auto further = further_->get();
  if (!further.ok()) return keep(further.status());
  auto more = run_each(candidate, (*further)->draws);
  if (!more.ok()) return keep(more.status());
  for (std::size_t draw = 0; draw < more->size(); ++draw) {
    given.push_back(match_outputs((*more)[draw], (*further)->plain[draw]));
  }
  for (const std::size_t index : unlucky) {
    KPT_ASSIGN_OR_RETURN(const std::string refusal, judge_together(given, **further, index));
    for (std::size_t row = index; row < report.outputs.size(); row += runs_.plain.front().size()) {
      OutputVerdict& alone = report.outputs[row];
      if (alone.passed) continue;
      alone.draws_together = given.size();
      alone.allowed_error.reset();  // it held for this draw alone
      alone.passed = refusal.empty();
      alone.reason = refusal;
    }
  }
  return {};
}

Result<std::string> Gate::judge_together(const Outputs& given, const HeldRuns& further, std::size_t index) const {
  JoinedError candidate;
  JoinedError plain;
  JoinedError bf16;
  const bool same_bf16 = further.bf16.empty();  // the plain run itself, or none
  for (std::size_t draw = 0; draw < given.size(); ++draw) {
    const bool first = draw < runs_.draws.size();
    const HeldRuns& runs = first ? runs_ : further;
    const std::size_t place = first ? draw : draw - runs_.draws.size();
    const Tensor& value = given[draw][index].tensor;
    if (!value.defined()) return std::string("the candidate does not give it on a further draw");
    KPT_ASSIGN_OR_RETURN(const Tensor own, in_form_of(value, runs.plain[place][index].tensor));
    KPT_ASSIGN_OR_RETURN(const Tensor exact, in_form_of(value, runs.reference[place][index].tensor));
    if (!(value.dims() == own.dims())) return std::string("it has another form on a further draw");
    KPT_ASSIGN_OR_RETURN(const Comparison kinds, compare_kinds(value, own, exact));
    if (!kinds.passed) return kinds.reason;
    KPT_ASSIGN_OR_RETURN(const Tensor reference, complete_reference(exact, own));
    KPT_RETURN_IF_ERROR(candidate.add(value, reference));
    KPT_RETURN_IF_ERROR(plain.add(own, reference));
    // A draw of small numbers must not be hidden by others.
    KPT_ASSIGN_OR_RETURN(const Sizes sizes, measure(own, reference));
    if (candidate.last() > std::max(kFewFactor * plain.last(), kMostOff * sizes.reference)) {
      return fmt::format("the error against fp64 is {:.3g} on a draw whose root mean square is {:.3g}",
                         candidate.last(), sizes.reference);
    }
    if (runs_.bf16.empty()) continue;
    KPT_ASSIGN_OR_RETURN(const Tensor low,
                         same_bf16 ? Result<Tensor>(own) : in_form_of(value, runs.bf16[place][index].tensor));
    KPT_RETURN_IF_ERROR(bf16.add(low, reference));
  }
  const double allowed = kFewFactor * std::max(plain.root(), bf16.root());
  if (candidate.root() <= allowed) return std::string();
  return fmt::format("over {} draws the error against fp64 is {:.3g}, allowed is {:.3g}", given.size(),
                     candidate.root(), allowed);
}

Result<GateReport> Gate::judge(ModelRun& candidate) const {
  GateReport report;
  report.level = options_.level;
  report.tolerance = options_.tolerance;
  report.last_position = options_.last_position;
  report.bf16_run = bf16_run_;
  report.notes = runs_.notes;
  KPT_RETURN_IF_ERROR(candidate.reset());
  Outputs given;
  for (std::size_t draw = 0; draw < runs_.draws.size(); ++draw) {
    report.draws.push_back(runs_.draws[draw].origin);
    KPT_ASSIGN_OR_RETURN(const std::vector<NamedTensor> outputs, candidate.run(runs_.draws[draw].inputs));
    given.push_back(match_outputs(outputs, runs_.plain[draw]));
    for (std::size_t index = 0; index < given[draw].size(); ++index) {
      const auto& [name, tensor] = given[draw][index];
      OutputVerdict verdict;
      if (tensor.defined()) {
        KPT_ASSIGN_OR_RETURN(verdict, judge_output(tensor, draw, index));
      } else {
        verdict = refuse(verdict, "form", "the candidate does not give it");
      }
      verdict.output = name;
      verdict.draw = draw;
      report.outputs.push_back(std::move(verdict));
    }
  }
  KPT_RETURN_IF_ERROR(look_again(candidate, std::move(given), report));
  return report;
}

}  // namespace kpt
