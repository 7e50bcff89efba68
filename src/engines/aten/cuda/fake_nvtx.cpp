#include "engines/aten/cuda/fake_nvtx.h"

#include <array>
#include <cstddef>
#include <utility>

#include <nvtx3/nvToolsExt.h>

namespace {

// Handles of domains are opaque: these stand for the names.
std::string domain_name;
std::string log;
std::array<char, 1> handle;

nvtxDomainHandle_t create_domain(const char* name) {
  domain_name = name;
  return reinterpret_cast<nvtxDomainHandle_t>(handle.data());
}

int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  const bool known = domain == reinterpret_cast<nvtxDomainHandle_t>(handle.data());
  log += (known ? domain_name : "?") + ">" + attributes->message.ascii + " ";
  return 0;
}

int pop(nvtxDomainHandle_t /*domain*/) {
  log += "< ";
  return 0;
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): NVTX looks for this name
extern "C" [[gnu::visibility("default")]] int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(&create_domain);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(&push);
  *table[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(&pop);
  return 1;
}

void fake_nvtx_take(std::string* heard) { *heard = std::exchange(log, {}); }
