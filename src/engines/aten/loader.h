// Opens libtorch and our modules on top of it, in this process, after making sure that they belong together.
//
// libtorch has no stable C++ interface: a module compiled for 2.15 that meets 2.11 crashes at the first call. So the
// library is asked for its version before anything of ours is opened, and whatever does not fit is one sentence.
//
// Nothing is ever closed: libtorch keeps threads and registrations until the process ends. One process holds one
// libtorch; asking for another later fails. Thread safe.
#pragma once

#include <filesystem>
#include <string>

#include "device/hardware.h"
#include "engines/aten/module_abi.h"
#include "engines/aten/torch_installation.h"
#include "kpt/status.h"

namespace kpt {

struct AtenModule {
  TorchInstallation installation;
  aten::TorchVersion library_version{};      // the loaded libtorch's own answer, or version.py's when it has none
  std::filesystem::path path;                // of our module
  const aten::ModuleTable* table = nullptr;  // never null in a loaded module; valid until the process ends
};

// One for GPUs: libtorch calls those of both vendors CUDA devices, and both modules have the same table.
struct AtenCudaModule {
  bool rocm = false;  // kpt_aten_rocm on libtorch_hip, for AMD GPUs; else kpt_aten_cuda on libtorch_cuda
  std::filesystem::path path;
  const aten::CudaModuleTable* table = nullptr;
};

// Fails with
//   kNotFound         no libtorch, or this build has no module at all
//   kVersionMismatch  libtorch and module do not belong together, or another libtorch is in the process already
//   kVendorLibrary    a library is damaged or cannot be loaded
// The message says what was found, what is needed and what mends it. `finding`, when given, receives the same in parts.
Result<AtenModule> load_aten(const TorchSearch& search, Finding* finding = nullptr);

// On top of a loaded CPU module, and before the first call into that: libtorch looks for its GPU part once and
// remembers that there was none, after which every function of this module fails. Also fails with kUnsupported when
// that libtorch was built without CUDA, or without ROCm. A machine without a GPU or driver is no failure here: the
// module then counts no devices.
Result<AtenCudaModule> load_aten_cuda(const AtenModule& aten, const TorchSearch& search, Finding* finding = nullptr);
Result<AtenCudaModule> load_aten_rocm(const AtenModule& aten, const TorchSearch& search, Finding* finding = nullptr);

// Of libtorch and of our modules.
enum class AtenPart : std::uint8_t { kCpu, kCuda, kRocm };

// Whether the files that load_aten(), and for the other parts also load_aten_cuda() or load_aten_rocm(), need are there
// and belong together by what they say. Opens no library, so a damaged one is not seen. Fails and fills `finding` as
// those do.
Status check_aten_files(const TorchSearch& search, AtenPart part, Finding* finding = nullptr);

// What a module's function returned, as a Status: kOutOfMemory, kDeviceNotAvailable, kInvalidArgument, or
// kVendorLibrary. `what` begins the sentence: "the self check".
Status to_status(const aten::CallOutcome& outcome, const std::string& what, Vendor vendor = Vendor::kNone);

}  // namespace kpt
