#include "engines/xla/pjrt/compile_options.h"

#include <string_view>

namespace kpt::pjrt {
namespace {

// The two wire forms that we need: numbers, and texts with a length.
class ProtoWriter {
 public:
  void number(std::uint32_t field, std::uint64_t value) {
    varint(std::uint64_t{field} << 3U);
    varint(value);
  }
  void text(std::uint32_t field, std::string_view value) {
    varint((std::uint64_t{field} << 3U) | 2U);
    varint(value.size());
    bytes_ += value;
  }
  // Several numbers in one field, as proto3 writes them.
  void numbers(std::uint32_t field, const std::vector<std::uint64_t>& values) {
    ProtoWriter packed;
    for (const std::uint64_t value : values) packed.varint(value);
    text(field, packed.bytes_);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void varint(std::uint64_t value) {
    while (value >= 0x80) {
      bytes_ += static_cast<char>((value & 0x7fU) | 0x80U);
      value >>= 7U;
    }
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

// DeviceAssignmentProto: for each partition the devices of its replicas.
std::string encode_assignment(const CompileSettings& settings) {
  ProtoWriter assignment;
  assignment.number(1, static_cast<std::uint64_t>(settings.replicas));
  assignment.number(2, static_cast<std::uint64_t>(settings.partitions));
  for (int partition = 0; partition < settings.partitions; ++partition) {
    std::vector<std::uint64_t> ids;
    for (int replica = 0; replica < settings.replicas; ++replica) {
      const auto index = static_cast<std::size_t>(replica) * static_cast<std::size_t>(settings.partitions) +
                         static_cast<std::size_t>(partition);
      ids.push_back(static_cast<std::uint64_t>(settings.device_ids[index]));
    }
    ProtoWriter computation;
    computation.numbers(1, ids);
    assignment.text(3, computation.bytes());
  }
  return assignment.bytes();
}

std::string encode_build_options(const CompileSettings& settings) {
  ProtoWriter build;
  const bool several = settings.replicas * settings.partitions > 1;
  if (several) build.number(1, static_cast<std::uint64_t>(std::int64_t{-1}));  // no particular device
  build.number(4, static_cast<std::uint64_t>(settings.replicas));
  build.number(5, static_cast<std::uint64_t>(settings.partitions));
  if (settings.partitions > 1) build.number(6, 1);  // partition by the sharding attributes
  if (!settings.device_ids.empty()) build.text(9, encode_assignment(settings));
  if (settings.shardy) build.number(19, 1);
  return build.bytes();
}

}  // namespace

std::string encode_compile_options(const CompileSettings& settings) {
  ProtoWriter options;
  options.text(3, encode_build_options(settings));
  for (const auto& [name, value] : settings.flags) {
    ProtoWriter chosen;
    if (const auto* text = std::get_if<std::string>(&value)) chosen.text(1, *text);
    if (const auto* truth = std::get_if<bool>(&value)) chosen.number(2, *truth ? 1 : 0);
    if (const auto* number = std::get_if<std::int64_t>(&value)) chosen.number(3, static_cast<std::uint64_t>(*number));
    ProtoWriter entry;
    entry.text(1, name);
    entry.text(2, chosen.bytes());
    options.text(7, entry.bytes());
  }
  return options.bytes();
}

}  // namespace kpt::pjrt
