#include "backends/amd/hip_api.h"

#include <array>
#include <string_view>

#include <fmt/format.h>

#include "device/vendor_text.h"

namespace kpt {
namespace {

// "gfx942" at the start of `text`; feature suffixes (":sramecc+") are not part of it.
std::optional<std::string> parse_target(std::string_view text) {
  constexpr std::string_view kPrefix = "gfx";
  constexpr std::size_t kMaxDigits = 6;
  std::size_t end = kPrefix.size();
  while (end < text.size() && end < kPrefix.size() + kMaxDigits &&
         ((text[end] >= '0' && text[end] <= '9') || (text[end] >= 'a' && text[end] <= 'f'))) {
    ++end;
  }
  if (end < kPrefix.size() + 3) return std::nullopt;
  return std::string(text.substr(0, end));
}

template <typename Pointer>
void find(const DynamicLibrary& library, const char* name, HipFunction<Pointer>& function) {
  function = {library.find<Pointer>(name), name};
}

}  // namespace

std::vector<std::string> hip_library_names() { return {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"}; }

Result<DynamicLibrary> open_hip_library(const std::vector<std::string>& libraries) {
  const CallInProgress call("dlopen");
  for (const std::string& name : libraries) {
    auto library = DynamicLibrary::open(name);
    if (library.ok() || library.status().code() != StatusCode::kNotFound) return library;
  }
  return Status(StatusCode::kNotFound, "there is no HIP runtime (libamdhip64) here; install ROCm", Vendor::kAmd);
}

HipApi HipApi::load(const DynamicLibrary& library) {
  HipApi hip;
#define KPT_FIND_FUNCTION(name, member, ...) find(library, #name, hip.member);
  KPT_HIP_FUNCTIONS(KPT_FIND_FUNCTION)
#undef KPT_FIND_FUNCTION
  find(library, "hipRuntimeGetVersion", hip.runtime_get_version);
  find(library, "hipDeviceGetName", hip.device_get_name);
  find(library, "hipDeviceTotalMem", hip.device_total_mem);
  find(library, "hipDeviceGetPCIBusId", hip.device_get_pci_bus_id);
  find(library, "hipGetDevicePropertiesR0600", hip.get_device_properties);
  if (hip.get_device_properties == nullptr) find(library, "hipGetDeviceProperties", hip.get_device_properties);
  find(library, "hipGetErrorString", hip.get_error_string);
  return hip;
}

std::string HipApi::error_text(int code) const {
  const char* text = get_error_string != nullptr ? get_error_string(code) : nullptr;
  if (text == nullptr) return fmt::format("HIP error {}", code);
  return fmt::format("{} (HIP error {})", printable_text(std::string(text)), code);
}

// The property structure differs between ROCm 5 and 6 in size and order, and gcnArchName with it, so we look for the
// text instead of an offset. The buffer is ten times the largest structure known (about 1.5 kB). The product name comes
// first in all versions and is passed over, for it could contain "gfx" itself.
std::optional<std::string> HipApi::find_gfx_target(int device, int& code) const {
  constexpr std::size_t kBufferBytes = 16384;
  constexpr std::size_t kNameBytes = 256;
  code = kHipSuccess;
  if (get_device_properties == nullptr) return std::nullopt;
  alignas(16) std::array<char, kBufferBytes> buffer{};
  code = get_device_properties(buffer.data(), device);
  if (code != kHipSuccess) return std::nullopt;
  std::string_view bytes(buffer.data(), buffer.size());
  bytes.remove_prefix(kNameBytes);
  for (auto at = bytes.find("gfx"); at != std::string_view::npos; at = bytes.find("gfx", at + 1)) {
    if (auto target = parse_target(bytes.substr(at))) return target;
  }
  return std::nullopt;
}

const char* HipApi::missing() const {
#define KPT_ASK_FUNCTION(name, member, ...) \
  if (member == nullptr) return #name;
  KPT_HIP_FUNCTIONS(KPT_ASK_FUNCTION)
#undef KPT_ASK_FUNCTION
  return nullptr;
}

}  // namespace kpt
