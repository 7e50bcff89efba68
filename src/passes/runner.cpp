#include "passes/runner.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "base/reword.h"
#include "base/text.h"
#include "base/timing.h"
#include "ir/verifier.h"
#include "passes/graph_edit.h"
#include "passes/pipeline.h"

namespace kpt {
namespace {

// The passes at hand may be others than the built-in ones (tests bring their own).
Status check_names(std::span<const Pass* const> passes, const std::vector<std::string>& disabled) {
  std::vector<std::string> known;
  for (const Pass* pass : passes) known.emplace_back(pass->name);
  for (const Pass* pass : all_passes()) known.emplace_back(pass->name);
  for (const std::string& name : disabled) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::optional<std::string> nearest = find_nearest(name, known);
    return {StatusCode::kInvalidArgument,
            fmt::format("there is no pass '{}'{}", printable(name, 64),
                        nearest ? fmt::format("; did you mean '{}'?", *nearest) : std::string())};
  }
  return {};
}

// What a pass cannot do to this model, by its name; other failures stay as they are.
Status name_refusal(const Pass& pass, const Status& status) {
  if (status.code() != StatusCode::kUnsupported) return status;
  return reword(status, StatusCode::kModelOptimization,
                fmt::format("the pass {} cannot rewrite this model: {}", pass.name, status.message()));
}

class Run {
 public:
  Run(ir::Graph& graph, PassContext& context, const RunnerOptions& options)
      : graph_(graph), context_(context), options_(options) {}

  Status apply(const Pass& pass, PassRecord& record) {
    const Support support = pass.applies(context_.capabilities);
    if (!support.supported) {
      record.skipped = support.reason;
      return {};
    }
    const ir::Graph before = graph_;
    const Weights weights_before = context_.weights;
    const auto take_back = [&] {
      graph_ = before;
      context_.weights = weights_before;
    };
    const auto start = std::chrono::steady_clock::now();
    Result<PassStats> made = pass.run(graph_, context_);
    if (!made.ok()) return name_refusal(pass, made.status());
    PassStats stats = std::move(made).value();
    record.details = std::move(stats.details);
    if (stats.changes == 0) {
      take_back();
    } else {
      KPT_RETURN_IF_ERROR(tidy(pass));
    }
    record.milliseconds = milliseconds_since(start);
    if (stats.changes == 0) return {};
    if (options_.check_each) {
      Status checked = options_.check_each(pass, before, weights_before, graph_, context_.weights);
      if (checked.code() == StatusCode::kInternal) return checked;
      if (!checked.ok()) {
        take_back();
        record.skipped = std::move(checked).message();
        record.taken_back = true;
        return {};
      }
    }
    record.changes = stats.changes;
    if (options_.dump_after) options_.dump_after(pass, graph_);
    return {};
  }

 private:
  Status tidy(const Pass& pass) {
    const auto check = [&]() -> Status {
      const Status verified = ir::verify(graph_);
      if (verified.ok()) return {};
      return {StatusCode::kInternal, fmt::format("the pass {} left a broken graph: {}", pass.name, verified.message())};
    };
    KPT_RETURN_IF_ERROR(check());
    remove_unused(graph_, context_.weights);
    return check();
  }

  ir::Graph& graph_;
  PassContext& context_;
  const RunnerOptions& options_;
};

}  // namespace

Result<std::vector<PassRecord>> run_passes(std::span<const Pass* const> passes, ir::Graph& graph, PassContext& context,
                                           const RunnerOptions& options) {
  KPT_RETURN_IF_ERROR(check_names(passes, options.disabled));
  const ir::Graph before = graph;
  const Weights weights_before = context.weights;
  Run run(graph, context, options);
  std::vector<PassRecord> records;
  for (const Pass* pass : passes) {
    PassRecord record;
    record.pass = pass->name;
    if (const auto out = options.left_out.find(records.size()); out != options.left_out.end()) {
      record.skipped = out->second;
    } else if (std::find(options.disabled.begin(), options.disabled.end(), pass->name) != options.disabled.end()) {
      record.skipped = "switched off";
    } else if (Status status = run.apply(*pass, record); !status.ok()) {
      graph = before;
      context.weights = weights_before;
      return status;
    }
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace kpt
