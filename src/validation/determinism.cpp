#include "validation/determinism.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "api/backend_list.h"
#include "passes/promote_to_fp64.h"
#include "validation/model_run.h"

namespace kpt {
namespace {

// The greatest difference of two tensors relative to the size of the first; infinite when they cannot be compared.
double difference(const Tensor& first, const Tensor& second) {
  const auto a_copy = first.contiguous_copy();
  const auto b_copy = second.contiguous_copy();
  if (!a_copy.ok() || !b_copy.ok() || !(first.dims() == second.dims()) || first.dtype() != second.dtype())
    return INFINITY;
  if (std::memcmp(a_copy->data(), b_copy->data(), a_copy->bytes()) == 0) return 0;
  if (!is_floating(first.dtype())) return INFINITY;
  const auto a_wide = promote_to_fp64(*a_copy);
  const auto b_wide = promote_to_fp64(*b_copy);
  if (!a_wide.ok() || !b_wide.ok()) return INFINITY;
  const auto a = a_wide->elements<double>();
  const auto b = b_wide->elements<double>();
  double greatest = 0;
  double squares = 0;
  std::size_t count = 0;
  for (std::size_t index = 0; index < a.size(); ++index) {
    if (std::isfinite(a[index]) && std::isfinite(b[index])) {
      greatest = std::max(greatest, std::fabs(a[index] - b[index]));
      squares += a[index] * a[index];
      ++count;
    } else if (!(std::isnan(a[index]) && std::isnan(b[index])) && a[index] != b[index]) {
      return INFINITY;
    }
  }
  const double size = count > 0 ? std::sqrt(squares / static_cast<double>(count)) : 0;
  return size > 0 ? greatest / size : greatest;
}

double difference(const std::vector<NamedTensor>& first, const std::vector<NamedTensor>& second) {
  if (first.size() != second.size()) return INFINITY;
  double greatest = 0;
  for (std::size_t index = 0; index < first.size(); ++index) {
    greatest = std::max(greatest, difference(first[index].tensor, second[index].tensor));
  }
  return greatest;
}

// Rows 0 to `count` of a contiguous tensor; with `repeated`, row 0 that many times.
Result<Tensor> take_rows(const Tensor& tensor, std::int64_t count, bool repeated) {
  KPT_ASSIGN_OR_RETURN(const Tensor source, tensor.contiguous_copy());
  Dims dims = source.dims();
  const std::size_t row = source.dims()[0] > 0 ? source.bytes() / static_cast<std::size_t>(source.dims()[0]) : 0;
  dims[0] = count;
  KPT_ASSIGN_OR_RETURN(Tensor rows, Tensor::empty(source.dtype(), dims));
  auto* to = static_cast<std::byte*>(rows.data());
  const auto* from = static_cast<const std::byte*>(source.data());
  for (std::size_t index = 0; index < static_cast<std::size_t>(count); ++index) {
    std::memcpy(to + index * row, from + (repeated ? 0 : index) * row, row);
  }
  return rows;
}

struct Batch {
  std::int64_t size = 0;
  bool may_be_one = false;
  std::string note;  // why there is none
};

// The first extent that all inputs share.
Batch find_batch(const ImportedModel& model, const Draw& draw) {
  Batch batch;
  const ir::Expr* shared = nullptr;
  for (const ir::GraphInput& input : model.graph.inputs) {
    if (input.kind != ir::InputKind::kUser) continue;
    const ir::Value& value = model.graph.at(input.value);
    const auto given = std::ranges::find(draw.inputs, input.name, &NamedTensor::name);
    if (value.kind != ir::ValueKind::kTensor || value.tensor.dims.empty() || given == draw.inputs.end()) {
      return {0, false, fmt::format("input '{}' has no batch", input.name)};
    }
    if (shared != nullptr && !(*shared == value.tensor.dims[0])) {
      return {0, false, "the inputs share no first extent"};
    }
    shared = &value.tensor.dims[0];
    batch.size = given->tensor.dims()[0];
  }
  if (shared == nullptr || batch.size < 2) return {0, false, "the batch has one row"};
  if (!shared->is_symbol()) return batch;
  const auto range = std::ranges::find(model.graph.symbols, shared->name(), &ir::SymbolRange::name);
  batch.may_be_one = range != model.graph.symbols.end() && range->min.value_or(1) <= 1;
  return batch;
}

Result<std::vector<NamedTensor>> first_rows(const std::vector<NamedTensor>& tensors, std::int64_t batch) {
  std::vector<NamedTensor> rows;
  for (const NamedTensor& named : tensors) {
    if (named.tensor.dims().empty() || named.tensor.dims()[0] != batch) continue;
    KPT_ASSIGN_OR_RETURN(Tensor row, take_rows(named.tensor, 1, false));
    rows.push_back({named.name, std::move(row)});
  }
  return rows;
}

Status check_batch(ModelRun& run, const Draw& draw, const Batch& batch, const std::vector<NamedTensor>& outputs,
                   Determinism& result) {
  std::vector<NamedTensor> copies;
  std::vector<NamedTensor> single;
  for (const NamedTensor& input : draw.inputs) {
    KPT_ASSIGN_OR_RETURN(Tensor repeated, take_rows(input.tensor, batch.size, true));
    KPT_ASSIGN_OR_RETURN(Tensor one, take_rows(input.tensor, 1, false));
    copies.push_back({input.name, std::move(repeated)});
    single.push_back({input.name, std::move(one)});
  }
  KPT_ASSIGN_OR_RETURN(const std::vector<NamedTensor> own, first_rows(outputs, batch.size));
  if (own.empty()) {
    result.batch_note = "no output has the batch as its first extent";
    return {};
  }
  KPT_RETURN_IF_ERROR(run.reset());
  KPT_ASSIGN_OR_RETURN(const std::vector<NamedTensor> beside, run.run(copies));
  KPT_ASSIGN_OR_RETURN(const std::vector<NamedTensor> beside_rows, first_rows(beside, batch.size));
  result.neighbours = difference(own, beside_rows);
  if (!batch.may_be_one) {
    result.batch_note = "the model takes no batch of one";
    return {};
  }
  KPT_RETURN_IF_ERROR(run.reset());
  KPT_ASSIGN_OR_RETURN(const std::vector<NamedTensor> lone, run.run(single));
  std::vector<NamedTensor> lone_rows;
  for (const NamedTensor& row : own) {
    const auto found = std::ranges::find(lone, row.name, &NamedTensor::name);
    if (found != lone.end()) lone_rows.push_back(*found);
  }
  result.alone = difference(own, lone_rows);
  return {};
}

}  // namespace

std::size_t find_draw_of_rows(const ImportedModel& model, const std::vector<Draw>& draws) {
  const auto found = std::ranges::find_if(draws, [&](const Draw& draw) { return find_batch(model, draw).size > 1; });
  return found != draws.end() ? static_cast<std::size_t>(found - draws.begin()) : 0;
}

Result<Determinism> check_determinism(const ImportedModel& model, const Draw& draw, const BackendContext& context,
                                      const std::string& device, std::string_view stored_program) {
  Determinism result;
  KPT_ASSIGN_OR_RETURN(const PlacedDevice placed, find_runnable_device(device, context));
  KPT_ASSIGN_OR_RETURN(ModelRun run, ModelRun::load(model, placed, stored_program));
  KPT_ASSIGN_OR_RETURN(const std::vector<NamedTensor> outputs, run.run(draw.inputs));
  KPT_RETURN_IF_ERROR(run.reset());
  KPT_ASSIGN_OR_RETURN(const std::vector<NamedTensor> again, run.run(draw.inputs));
  result.twice = difference(outputs, again);
  const Batch batch = find_batch(model, draw);
  result.batch_note = batch.note;
  if (batch.size > 1) KPT_RETURN_IF_ERROR(check_batch(run, draw, batch, outputs, result));

  BackendContext other = context;
  other.threads = context.threads > 1 ? 1 : 2;
  result.threads_text = fmt::format("{} and {} threads", context.threads, other.threads);
  {
    KPT_ASSIGN_OR_RETURN(const PlacedDevice second, find_runnable_device(device, other));
    KPT_ASSIGN_OR_RETURN(ModelRun run_other, ModelRun::load(model, second, stored_program));
    KPT_ASSIGN_OR_RETURN(const std::vector<NamedTensor> with_other, run_other.run(draw.inputs));
    result.threads = difference(outputs, with_other);
  }
  // Opening an engine sets the threads of the process: back to what the caller chose.
  KPT_ASSIGN_OR_RETURN(const PlacedDevice restored, find_runnable_device(device, context));
  KPT_RETURN_IF_ERROR(ModelRun::load(model, restored, stored_program).status());
  return result;
}

}  // namespace kpt
