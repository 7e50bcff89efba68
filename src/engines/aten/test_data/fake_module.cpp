// Stands in for kpt_aten_<major>_<minor>.so in the loader's tests; macros make it wrong in one way each.
#include <limits>

#include "engines/aten/module_abi.h"

#ifndef FAKE_ABI
#define FAKE_ABI kpt::aten::kModuleAbi
#endif
#ifndef FAKE_BORDER
#define FAKE_BORDER kpt::aten::kBorderHash
#endif
#ifndef FAKE_ERROR
#define FAKE_ERROR 0.0
#endif

#ifdef FAKE_NEEDS
extern "C" void kpt_symbol_that_no_library_has();
#endif

namespace {

using kpt::aten::CallCode;
using kpt::aten::CallOutcome;

CallOutcome runtime_version(kpt::aten::TorchVersion* version) noexcept {
  *version = {2, 15, 0};
  return CallOutcome{CallCode::kOk, {}};
}

CallOutcome build_facts(kpt::aten::BuildFacts* /*facts*/) noexcept {
  return CallOutcome{CallCode::kFailed, "the fake module has no facts\nand says so on two lines"};
}

CallOutcome self_check(std::uint64_t seed, kpt::aten::SelfCheck* check) noexcept {
#ifdef FAKE_NEEDS
  kpt_symbol_that_no_library_has();
#endif
  // A count beyond the array: the reader must not follow it.
  *check = {.seed = seed, .rows = 2, .inner = 3, .columns = 4, .count = 1000, .errors = {}};
  for (auto& error : check->errors) error = {"float32", FAKE_ERROR, 1e-5};
  return CallOutcome{CallCode::kOk, {}};
}

constexpr kpt::aten::ModuleTable kTable = {
    .abi = FAKE_ABI,
    .built_for = {2, FAKE_MINOR, 0},
    .border = FAKE_BORDER,
    .runtime_version = runtime_version,
    .build_facts = build_facts,
    .self_check = self_check,
    .check_graph = nullptr,
    .load_graph = nullptr,
    .set_threads = nullptr,
    .set_warning_sink = nullptr,
    .hide_instructions = nullptr,
    .record = nullptr,
};

}  // namespace

extern "C" [[gnu::visibility("default")]] const kpt::aten::ModuleTable* kpt_aten_module() { return &kTable; }
