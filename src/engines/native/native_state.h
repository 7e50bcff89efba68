// The buffers that a model writes, on a machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device/execution.h"
#include "engines/native/machine.h"

namespace kpt::native {

// A run reads what a buffer holds and writes what it will hold; only a run that succeeded makes the one the other. So
// do reset() and write(): one that fails changes nothing.
class NativeState final : public State {
 public:
  struct Buffer {
    std::string name;
    std::uint32_t input = 0;  // index in the graph's inputs
    DType dtype = DType::kFloat32;
    Dims dims;
    const void* original = nullptr;  // on the machine: what the file holds
  };

  // `owner` tells states of different executables apart. `weights` hold the originals.
  static Result<std::unique_ptr<NativeState>> make(const void* owner, std::shared_ptr<Machine> machine,
                                                   std::shared_ptr<kpt::Buffer> weights, std::vector<Buffer> buffers);

  Status reset() override;
  std::vector<std::string> names() const override;
  Result<Tensor> read(std::string_view name) const override;
  Status write(std::string_view name, const Tensor& value) override;

  const void* owner() const { return owner_; }
  // Of the graph's input.
  const Tensor& current(std::uint32_t input) const;
  const Tensor& next(std::uint32_t input) const;
  // Before a run: memory for what it writes, where that was dropped. Fails with kOutOfMemory.
  Status prepare_next();
  // The run has succeeded.
  void advance();
  // A run did not come to rest: what it may still write is not used again.
  void drop_next();

 private:
  struct Entry {
    Buffer buffer;
    Tensor current, next;  // the latter undefined after drop_next()
  };

  NativeState(const void* owner, std::shared_ptr<Machine> machine, std::shared_ptr<kpt::Buffer> weights)
      : owner_(owner), machine_(std::move(machine)), weights_(std::move(weights)) {}
  Result<Tensor> allocate(const Buffer& buffer) const;
  Result<std::size_t> find(std::string_view name) const;  // index of its entry
  const Entry& at(std::uint32_t input) const;

  const void* owner_;
  std::shared_ptr<Machine> machine_;
  std::shared_ptr<kpt::Buffer> weights_;
  std::vector<Entry> entries_;
};

}  // namespace kpt::native
