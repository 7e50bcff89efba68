#include "artifact/merge.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace kpt {
namespace {

bool same_content(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.dims() == b.dims()) || !(a.strides() == b.strides())) return false;
  const auto left = a.is_contiguous() ? Result<Tensor>(a) : a.contiguous_copy();
  const auto right = b.is_contiguous() ? Result<Tensor>(b) : b.contiguous_copy();
  return left.ok() && right.ok() &&
         (left->bytes() == 0 || std::memcmp(left->data(), right->data(), left->bytes()) == 0);
}

void share(const std::vector<NamedTensor>& earlier, std::vector<NamedTensor>& later) {
  for (NamedTensor& named : later) {
    const auto other = std::ranges::find(earlier, named.name, &NamedTensor::name);
    if (other != earlier.end() && same_content(other->tensor, named.tensor)) named.tensor = other->tensor;
  }
}

void share_weights(const std::vector<ArtifactTarget>& earlier, ArtifactTarget& later) {
  for (auto& [name, weight] : later.weights) {
    for (const ArtifactTarget& target : earlier) {
      const auto other = target.weights.find(name);
      if (other == target.weights.end() || !same_content(other->second, weight)) continue;
      weight = other->second;
      break;
    }
  }
}

}  // namespace

Result<Artifact> merge_artifacts(std::vector<Artifact> artifacts) {
  if (artifacts.empty()) return Status(StatusCode::kInvalidArgument, "there is no artifact to merge");
  Artifact merged;
  merged.producer = artifacts.front().producer;
  merged.source = artifacts.front().source;
  merged.source_sha256 = artifacts.front().source_sha256;
  for (Artifact& artifact : artifacts) {
    if (artifact.source_sha256 != merged.source_sha256) {
      return Status(StatusCode::kInvalidArgument, "artifacts of different models cannot be merged");
    }
    const std::size_t first = merged.targets.size();
    for (ArtifactTarget& target : artifact.targets) {
      if (std::ranges::find(merged.targets, target.name, &ArtifactTarget::name) != merged.targets.end()) {
        return Status(StatusCode::kInvalidArgument,
                      fmt::format("the target '{}' is there twice", printable(target.name, 64)));
      }
      share_weights(merged.targets, target);
      merged.targets.push_back(std::move(target));
    }
    for (ArtifactSample& sample : artifact.samples) {
      for (const ArtifactSample& earlier : merged.samples) {
        share(earlier.inputs, sample.inputs);
        share(earlier.reference, sample.reference);
      }
      if (!sample.target.empty()) {
        merged.samples.push_back(std::move(sample));
        continue;
      }
      for (std::size_t place = first; place < merged.targets.size(); ++place) {
        merged.samples.push_back(sample);
        merged.samples.back().target = merged.targets[place].name;
      }
    }
  }
  return merged;
}

}  // namespace kpt
