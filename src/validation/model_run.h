// One form of a model, loaded, run on inputs by name, with everything that can be seen afterwards: what it gives, the
// buffers it wrote and the inputs it wrote.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/backend_list.h"
#include "importer/model_file.h"
#include "runtime/loaded_model.h"

namespace kpt {

// Not thread safe: it owns the model's buffers.
class ModelRun {
 public:
  // Fails as detail::LoadedModel::load() does, which also says what `stored_program` is.
  static Result<ModelRun> load(ImportedModel model, const PlacedDevice& device, std::string_view stored_program = {});
  static Result<ModelRun> take(std::shared_ptr<const detail::LoadedModel> loaded);

  // Floating inputs are brought to the type that this form of the model takes. The caller's tensors are never written.
  // Buffers that the model wrote follow its outputs as "buffer NAME", inputs that it wrote as "input NAME".
  Result<std::vector<NamedTensor>> run(std::span<const NamedTensor> inputs);
  // From now on without options that trade precision for speed: what candidates are held against.
  void run_as_written() { as_written_ = true; }
  // Buffers back to what the file holds.
  Status reset();

  const detail::LoadedModel& loaded() const { return *loaded_; }
  bool is_stateful() const { return loaded_->executable().is_stateful(); }

 private:
  explicit ModelRun(std::shared_ptr<const detail::LoadedModel> loaded) : loaded_(std::move(loaded)) {}

  std::shared_ptr<const detail::LoadedModel> loaded_;
  std::unique_ptr<State> state_;
  bool as_written_ = false;
};

// A copy of a floating tensor in another floating type: float64, float32 or bfloat16 (rounded to nearest). Others are
// copied as they are.
Result<Tensor> convert_floating(const Tensor& tensor, DType dtype);

}  // namespace kpt
