#include "engines/xla/pjrt/function_table.h"

#include <cstring>
#include <string_view>

#include "base/text.h"

namespace kpt::pjrt {
namespace {

constexpr std::size_t kMaxMessageBytes = 2000;  // a compiler's message may quote a whole module

void destroy(const ApiHead& table, abi::Error* error) {
  void* const entry = find_entry(table, Slot::kErrorDestroy);
  if (error == nullptr || entry == nullptr) return;
  abi::Call<abi::ErrorDestroyArgs> args;
  args.error = error;
  reinterpret_cast<void (*)(void*)>(entry)(static_cast<abi::ErrorDestroyArgs*>(&args));
}

std::string read_message(const ApiHead& table, abi::Error* error) {
  void* const entry = find_entry(table, Slot::kErrorMessage);
  if (entry == nullptr) return "no message";
  abi::Call<abi::ErrorMessageArgs> args;
  args.error = error;
  reinterpret_cast<void (*)(void*)>(entry)(static_cast<abi::ErrorMessageArgs*>(&args));
  if (args.message == nullptr) return "no message";
  return printable(std::string_view(args.message, args.message_size), kMaxMessageBytes);
}

std::optional<abi::ErrorCode> read_code(const ApiHead& table, abi::Error* error) {
  void* const entry = find_entry(table, Slot::kErrorGetCode);
  if (entry == nullptr) return std::nullopt;
  abi::Call<abi::ErrorGetCodeArgs> args;
  args.error = error;
  abi::Error* const second =
      reinterpret_cast<abi::Error* (*)(void*)>(entry)(static_cast<abi::ErrorGetCodeArgs*>(&args));
  if (second == nullptr) return args.code;
  destroy(table, second);
  return std::nullopt;
}

}  // namespace

void* find_entry(const ApiHead& table, Slot slot) {
  const std::size_t offset = sizeof(ApiHead) + static_cast<std::size_t>(slot) * sizeof(void*);
  if (offset + sizeof(void*) > table.struct_size) return nullptr;
  void* entry = nullptr;
  std::memcpy(&entry, reinterpret_cast<const std::byte*>(&table) + offset, sizeof(entry));
  return entry;
}

PluginError take_error(const ApiHead& table, abi::Error* error) {
  PluginError taken{read_code(table, error), read_message(table, error)};
  destroy(table, error);
  return taken;
}

}  // namespace kpt::pjrt
