// Reads what torch.save() wrote, without running any of it.
//
// Such a file is a zip archive: `<root>/data.pkl` is a pickle of protocol 2 and `<root>/data/<key>` are the storages.
// A pickle is a program for a stack machine that may call any Python function. This machine knows the few calls below,
// does what they mean by itself, and refuses every other one by name with kUnsupported; nothing is ever executed.
//
//   known values   None, bool, int of 64 bits, float, str, list, tuple, dict, collections.OrderedDict (as dict; its
//                  attributes are dropped), torch.Size (as tuple), tensors and parameters, dtypes, devices
//   known calls    torch._utils._rebuild_tensor_v2, _rebuild_tensor_v3, _rebuild_parameter, torch.device, torch.Size,
//                  collections.OrderedDict; torch.<type>Storage, torch.storage.UntypedStorage and torch.<dtype> as
//                  names
//   refused        all other classes and functions, sparse and quantized tensors, tensors with hooks or with lazy
//                  conjugation or negation, big endian, other protocols, files from before PyTorch 1.6
//
// Broken input (a stack that runs empty, a storage shorter than its tensors, values that contain themselves) is
// kCorruptData. Depth, number of operations and values, and size of texts are bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "archive/mapped_file.h"
#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

// torch.device
struct PickleDevice {
  std::string type;  // "cpu", "cuda", …
  std::optional<std::int64_t> index;
  bool operator==(const PickleDevice&) const = default;
};

// A tree of Python values. A value that was shared in Python appears at each place; tensors still share their storage.
struct PickleValue {
  struct None {};
  struct List {
    std::vector<PickleValue> items;
  };
  struct Tuple {
    std::vector<PickleValue> items;
  };
  struct Dict {  // keys[i] belongs to values[i]; a key that was set twice stands once, with the last value
    std::vector<PickleValue> keys;
    std::vector<PickleValue> values;
  };
  std::variant<None, bool, std::int64_t, double, std::string, List, Tuple, Dict, Tensor, DType, PickleDevice> value;

  // The alternative asked for, or null.
  template <typename T>
  const T* get() const {
    return std::get_if<T>(&value);
  }
  // The value under a text key of a dict; null when there is none or this is no dict.
  const PickleValue* find(std::string_view key) const;
  // The items of a list or tuple; empty for anything else.
  std::span<const PickleValue> items() const;
  // "a tuple", "a tensor", …: for messages.
  std::string_view kind() const;
};

// `bytes` is the whole zip archive, `name` is for messages. With `file`, of which `bytes` must be a part (an entry of a
// .pt2 archive), tensors point into the mapping and are read only; without, storages are copied, each once.
Result<PickleValue> read_torch_pickle(std::span<const std::byte> bytes, std::string name,
                                      std::shared_ptr<const MappedFile> file = nullptr);

}  // namespace kpt
