// Any bytes as what torch.save() wrote, and as the pickle inside a sound archive of that kind: never a crash, never a
// tensor outside its storage.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "archive/zip.h"
#include "tensor_files/torch_pickle.h"

namespace {

void touch(const kpt::PickleValue& value) {
  if (const auto* tensor = value.get<kpt::Tensor>()) {
    // Strides of zero make large tensors of small storages; those are checked by their description alone.
    if (tensor->bytes() <= 1U << 16U && !tensor->contiguous_copy().ok()) std::abort();
  }
  for (const kpt::PickleValue& item : value.items()) touch(item);
  if (const auto* dict = value.get<kpt::PickleValue::Dict>()) {
    if (dict->keys.size() != dict->values.size()) std::abort();
    for (const kpt::PickleValue& item : dict->values) touch(item);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  if (const auto value = kpt::read_torch_pickle(bytes, "fuzz.pt"); value.ok()) touch(*value);

  static const std::string storage(64, '\1');
  kpt::ZipBuilder builder;
  builder.add("a/data.pkl", bytes);
  for (const char* key : {"a/data/0", "a/data/1"}) builder.add(key, std::as_bytes(std::span(storage)));
  const std::string archive = builder.serialize().value();
  if (const auto value = kpt::read_torch_pickle(std::as_bytes(std::span(archive)), "fuzz.pt"); value.ok())
    touch(*value);
  return 0;
}
