// The buffers that a graph writes, one copy per sequence or session.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "device/execution.h"
#include "engines/aten/module/loaded_graph.h"

namespace kpt::aten {

class GraphState final : public State {
 public:
  // Copies the written ones among `weights` on `device`. Weights that share memory in the file share it here too.
  // Throws what libtorch throws when memory runs out.
  GraphState(const std::vector<LoadedWeight>& weights, at::Device device);

  Status reset() override;
  std::vector<std::string> names() const override;
  Result<Tensor> read(std::string_view name) const override;
  Status write(std::string_view name, const Tensor& value) override;

  const at::Tensor& tensor(std::string_view name) const;

 private:
  struct Entry {
    at::Tensor original;  // the file's memory
    at::Tensor current;
    std::shared_ptr<Buffer> owner;
  };
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace kpt::aten
