#include "validation/reference.h"

#include "passes/promote_to_fp64.h"

namespace kpt {

Result<Reference> Reference::load(const ImportedModel& model, Backend& backend, Device& device,
                                  std::shared_ptr<void> keep_alive) {
  ImportedModel promoted = model;
  KPT_RETURN_IF_ERROR(promote_to_fp64(promoted.graph));
  KPT_ASSIGN_OR_RETURN(promoted.weights, promote_to_fp64(model.weights));
  KPT_ASSIGN_OR_RETURN(auto loaded,
                       detail::LoadedModel::load(std::move(promoted), backend, device, std::move(keep_alive)));
  KPT_ASSIGN_OR_RETURN(Session session, detail::start_session(std::move(loaded)));
  return Reference(std::move(session));
}

Result<std::vector<NamedTensor>> Reference::run(std::span<const NamedTensor> inputs) {
  std::vector<NamedTensor> widened;
  for (const NamedTensor& input : inputs) {
    KPT_ASSIGN_OR_RETURN(Tensor tensor, promote_to_fp64(input.tensor));
    widened.push_back({input.name, std::move(tensor)});
  }
  return session_.run(widened);
}

}  // namespace kpt
