#include "artifact/target_check.h"

#include <set>

#include <fmt/format.h>

#include "archive/json_reader.h"
#include "base/text.h"
#include "ir/verifier.h"

namespace kpt::artifact {
namespace {

constexpr std::size_t kShown = 200;

bool has_extents(const ir::TensorType& type, const Tensor& tensor) {
  if (type.dims.size() != tensor.dims().size()) return false;
  for (std::size_t i = 0; i < type.dims.size(); ++i) {
    if (type.dims[i].constant() != tensor.dims()[i]) return false;
  }
  return true;
}

Status check_weights(const ir::Graph& graph, const Weights& weights, StatusCode code) {
  for (const ir::GraphInput& input : graph.inputs) {
    if (!is_weight(input)) continue;
    const auto found = weights.find(input.name);
    if (found == weights.end()) {
      return {code, fmt::format("the graph takes a weight '{}' that is not there", printable(input.name, kShown))};
    }
    const ir::TensorType& type = graph.at(input.value).tensor;
    if (found->second.dtype() != type.dtype || !has_extents(type, found->second)) {
      return {code, fmt::format("the weight '{}' is {}, which is not what the graph takes",
                                printable(input.name, kShown), found->second.to_string())};
    }
  }
  return {};
}

Status check_report(const std::string& report, StatusCode code) {
  JsonReader reader(report, "report");
  Status status = reader.object([&](std::string_view) { return reader.skip(); });
  if (status.ok()) status = reader.finish();
  return status.ok() ? Status() : Status(code, status.message());
}

Status check_names(const std::vector<NamedTensor>& tensors, StatusCode code) {
  std::set<std::string_view> names;
  for (const NamedTensor& named : tensors) {
    if (names.insert(named.name).second) continue;
    return {code, fmt::format("a sample holds '{}' twice", printable(named.name, kShown))};
  }
  return {};
}

}  // namespace

Status check_target(const ArtifactTarget& target, StatusCode code) {
  if (const Status status = ir::verify(target.graph); !status.ok()) return {code, status.message()};
  KPT_RETURN_IF_ERROR(check_weights(target.graph, target.weights, code));
  return check_report(target.report, code);
}

Status check_sample(const ArtifactSample& sample, StatusCode code) {
  for (const auto* list : {&sample.inputs, &sample.outputs, &sample.reference}) {
    KPT_RETURN_IF_ERROR(check_names(*list, code));
  }
  if (sample.reference.empty()) return {};
  bool same = sample.reference.size() == sample.outputs.size();
  for (std::size_t i = 0; same && i < sample.outputs.size(); ++i) {
    same = sample.outputs[i].name == sample.reference[i].name &&
           sample.outputs[i].tensor.dims() == sample.reference[i].tensor.dims();
  }
  return same ? Status() : Status(code, "the reference of a sample has other outputs than the sample");
}

}  // namespace kpt::artifact
