// The stack machine behind torch_pickle.h: runs the operations of a pickle over a table of nodes.
//
// Nodes refer to each other by number, because a pickle may change a list after it has put it into another, and may
// make circles. torch_pickle.cpp turns the table into a tree.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "kpt/status.h"
#include "kpt/tensor.h"
#include "tensor_files/torch_pickle.h"

namespace kpt {

using PickleNodeId = std::uint32_t;

// A function or class that the pickle names and this machine knows.
enum class PickleGlobal : std::uint8_t {
  kRebuildTensorV2,
  kRebuildTensorV3,
  kRebuildParameter,
  kOrderedDict,
  kDevice,
  kSize,
  kUntypedStorage,
};

// A storage type, torch.FloatStorage: the type of its elements.
struct PickleStorageType {
  DType dtype;
};

// The bytes of a storage; `dtype` is empty for an untyped one.
struct PickleStorage {
  std::shared_ptr<Buffer> buffer;
  std::optional<DType> dtype;
};

struct PickleNode {
  struct List {
    std::vector<PickleNodeId> items;
  };
  struct Tuple {
    std::vector<PickleNodeId> items;
  };
  struct Dict {
    std::vector<PickleNodeId> pairs;  // key, value, key, value, …
  };
  std::variant<PickleValue::None, bool, std::int64_t, double, std::string, List, Tuple, Dict, Tensor, DType,
               PickleDevice, PickleGlobal, PickleStorageType, PickleStorage>
      value;
};

class PickleMachine {
 public:
  // Gives the bytes of the storage with this key; called once per key.
  using LoadStorage = std::function<Result<std::shared_ptr<Buffer>>(const std::string& key)>;

  PickleMachine(std::string_view pickle, std::string name, LoadStorage load)
      : rest_(pickle), name_(std::move(name)), load_(std::move(load)) {}

  // The number of the node that the pickle leaves. To be called once.
  Result<PickleNodeId> run();
  const PickleNode& node(PickleNodeId id) const { return nodes_[id]; }

 private:
  static constexpr std::size_t kMaxOperations = 8'000'000;
  static constexpr std::size_t kMaxMemo = 2'000'000;

  Status corrupt(std::string_view what) const;
  Status unsupported(std::string_view what) const;

  Result<std::string_view> take(std::size_t count);
  Result<std::string_view> take_line();
  template <typename T>
  Result<T> take_number();

  template <typename T>
  void push(T value) {
    nodes_.push_back(PickleNode{std::move(value)});
    stack_.push_back(static_cast<PickleNodeId>(nodes_.size() - 1));
  }
  Result<PickleNodeId> pop();
  // Everything above the last mark, which is removed.
  Result<std::vector<PickleNodeId>> pop_to_mark();
  template <typename T>
  T* get(PickleNodeId id) {
    return std::get_if<T>(&nodes_[id].value);
  }

  Status step(unsigned char operation);
  Status step_scalar(unsigned char operation);
  Status step_container(unsigned char operation);
  Status push_long();
  Status push_tuple(std::size_t count);
  Status append(std::vector<PickleNodeId> items);
  Status set_items(std::vector<PickleNodeId> pairs);
  Status remember(std::uint32_t key);
  Status recall(std::uint32_t key);

  Status push_global();
  Status reduce();
  Status build();
  Status push_persistent();
  Status rebuild_tensor(std::span<const PickleNodeId> arguments, bool with_dtype);
  Status rebuild_parameter(std::span<const PickleNodeId> arguments);
  Status make_device(std::span<const PickleNodeId> arguments);
  Result<std::vector<std::int64_t>> integers(PickleNodeId tuple);

  std::string_view rest_;
  std::string name_;
  LoadStorage load_;
  std::vector<PickleNode> nodes_;
  std::vector<PickleNodeId> stack_;
  std::vector<std::size_t> marks_;  // heights of the stack
  std::unordered_map<std::uint32_t, PickleNodeId> memo_;
  std::unordered_map<std::string, std::shared_ptr<Buffer>> storages_;
};

}  // namespace kpt
