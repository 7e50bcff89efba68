#include "optimize/several_devices.h"

#include <utility>

#include <fmt/format.h>

#include "artifact/merge.h"
#include "base/reword.h"
#include "base/scratch_folder.h"

namespace kpt {
namespace {

Status check_targets(const std::vector<DeviceJob>& jobs) {
  for (std::size_t later = 0; later < jobs.size(); ++later) {
    const Device& device = *jobs[later].device.device;
    for (std::size_t place = 0; place < later; ++place) {
      const Device& other = *jobs[place].device.device;
      if (other.info().name == device.info().name) {
        return {StatusCode::kInvalidArgument, fmt::format("the device {} is named twice", device.info().name)};
      }
      if (other.target().name() != device.target().name()) continue;
      return {StatusCode::kInvalidArgument, fmt::format("{} and {} are both {}: one part serves them, name one of them",
                                                        other.info().name, device.info().name, device.target().name())};
    }
  }
  return {};
}

Status name_device(const Status& status, const Device& device) {
  return reword(status, status.code(), fmt::format("for {}: {}", device.info().name, status.message()));
}

}  // namespace

Result<SeveralOptimizations> optimize_for_devices(const ImportedModel& model, const std::vector<DeviceJob>& jobs,
                                                  const PlacedDevice& cpu, int threads,
                                                  const std::filesystem::path& path, CompileCache* cache) {
  if (jobs.empty()) return Status(StatusCode::kInvalidArgument, "no device is named");
  KPT_RETURN_IF_ERROR(check_targets(jobs));
  SeveralOptimizations several;
  if (jobs.size() == 1) {
    KPT_ASSIGN_OR_RETURN(WrittenOptimization only,
                         optimize_to_file(model, jobs[0].options, jobs[0].device, cpu, threads, path, cache));
    several.written = only.written;
    several.parts.push_back(std::move(only));
    return several;
  }
  KPT_ASSIGN_OR_RETURN(const ScratchFolder folder, ScratchFolder::make_beside(path));
  std::vector<Artifact> artifacts;
  for (const DeviceJob& job : jobs) {
    const std::filesystem::path part = folder.path() / fmt::format("{}.kpt", artifacts.size());
    auto written = optimize_to_file(model, job.options, job.device, cpu, threads, part, cache);
    if (!written.ok()) return name_device(written.status(), *job.device.device);
    several.parts.push_back(std::move(*written));
    if (!several.parts.back().written) return several;
    KPT_ASSIGN_OR_RETURN(Artifact artifact, read_artifact(part, {.check_weights = false}));  // just written
    artifacts.push_back(std::move(artifact));
  }
  KPT_ASSIGN_OR_RETURN(const Artifact merged, merge_artifacts(std::move(artifacts)));
  KPT_RETURN_IF_ERROR(write_artifact(path, merged));
  several.written = true;
  return several;
}

}  // namespace kpt
