// The oracle: a model's fp64 run on the CPU, which everything else is compared with.
#pragma once

#include <memory>
#include <vector>

#include "device/execution.h"
#include "importer/model_file.h"
#include "kpt/model.h"
#include "runtime/loaded_model.h"

namespace kpt {

// The unoptimized graph with all floating-point types and weights in fp64. Takes inputs of the model's own types and
// widens them. `backend` and `device` are the CPU's and must outlive the result unless `keep_alive` owns them.
class Reference {
 public:
  static Result<Reference> load(const ImportedModel& model, Backend& backend, Device& device,
                                std::shared_ptr<void> keep_alive = nullptr);

  Result<std::vector<NamedTensor>> run(std::span<const NamedTensor> inputs);
  // A model that writes buffers starts anew.
  Status reset() { return session_.reset(); }

 private:
  explicit Reference(Session session) : session_(std::move(session)) {}
  Session session_;
};

}  // namespace kpt
