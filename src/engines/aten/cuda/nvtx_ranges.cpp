#include "engines/aten/cuda/nvtx_ranges.h"

// The headers alone: they open what a profiler names in the environment, so there is no library to link.
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define KPT_HAS_NVTX 1
#else
#define KPT_HAS_NVTX 0
#endif

namespace kpt::aten {
namespace {

#if KPT_HAS_NVTX

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t kDomain = nvtxDomainCreateA("kpt");
  return kDomain;
}

void open_range(const char* name) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &attributes);
}

void close_range() { nvtxDomainRangePop(domain()); }

#else

void open_range(const char* /*name*/) {}
void close_range() {}

#endif

}  // namespace

bool has_nvtx() noexcept { return KPT_HAS_NVTX != 0; }

NvtxRange::NvtxRange(const std::string* name) : open_(name != nullptr) {
  if (open_) open_range(name->c_str());
}

NvtxRange::~NvtxRange() {
  if (open_) close_range();
}

NvtxNodes::~NvtxNodes() {
  if (open_) close_range();
}

void NvtxNodes::begin_node(std::size_t node) {
  open_range(names_[node].c_str());
  open_ = true;
  if (inner_ != nullptr) inner_->begin_node(node);
}

void NvtxNodes::end_node(std::size_t node) {
  if (inner_ != nullptr) inner_->end_node(node);
  close_range();
  open_ = false;
}

}  // namespace kpt::aten
