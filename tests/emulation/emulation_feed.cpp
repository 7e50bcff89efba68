// kpt_emulation_feed <cache folder>: what tools/amd_emulate.py asks for, line by line. For developers; not installed.
//
//   compiler                            → "ok <version>"
//   kernels <target>                    → "<name> <family>" lines of all that its code objects hold, "end"
//   compile <family> <target> <file>    → "ok", the code object is in the file
//   plan <target> <compute units> <call> → "workspace <bytes>", "launch <kernel> <blocks> <threads> <arguments>" lines,
//                                         "end"; calls are those of call_text.h
//   anything that fails                 → "error <sentence>"
#include <iostream>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "backends/amd/call_text.h"
#include "backends/amd/hip_compiler.h"
#include "backends/amd/target_traits.h"
#include "base/files.h"
#include "base/log.h"
#include "base/text.h"

namespace {

using kpt::Result;
using kpt::Status;
using kpt::StatusCode;

Result<std::string> list_kernels(std::string_view target) {
  const kpt::AmdArchitecture* architecture = kpt::find_amd_architecture(target);
  if (architecture == nullptr) return Status(StatusCode::kInvalidArchitecture, "there is no such target");
  std::string answer;
  for (const kpt::gpu::KernelFamily& family : kpt::gpu::kernel_families()) {
    if (!kpt::runs_family(*architecture, family)) continue;
    for (const kpt::gpu::KernelInfo& info : kpt::gpu::list_kernels()) {
      if (info.family == family.name) answer += fmt::format("{} {}\n", info.name, info.family);
    }
  }
  return answer + "end";
}

Result<std::string> compile(kpt::HipCompileCache& compiler, std::string_view family, std::string_view target,
                            std::string_view file) {
  const kpt::AmdArchitecture* architecture = kpt::find_amd_architecture(target);
  if (architecture == nullptr) return Status(StatusCode::kInvalidArchitecture, "there is no such target");
  for (const kpt::gpu::KernelFamily& known : kpt::gpu::kernel_families()) {
    if (known.name == family && !kpt::runs_family(*architecture, known)) {
      return Status(StatusCode::kUnsupported, fmt::format("{} has not the matrix instructions of it", target));
    }
  }
  KPT_ASSIGN_OR_RETURN(const kpt::HipSource source, kpt::own_kernels(family));
  KPT_ASSIGN_OR_RETURN(const std::string object, compiler.compile(source, target));
  KPT_RETURN_IF_ERROR(kpt::write_file_atomically(std::string(file), object));
  return std::string("ok");
}

Result<std::string> plan(std::string_view target, std::string_view units, std::string_view call) {
  const kpt::AmdArchitecture* architecture = kpt::find_amd_architecture(target);
  const auto multiprocessors = kpt::parse_int(units);
  if (architecture == nullptr || !multiprocessors || *multiprocessors < 1 || *multiprocessors > 4096) {
    return Status(StatusCode::kInvalidArgument, "a plan wants a target and a number of compute units");
  }
  KPT_ASSIGN_OR_RETURN(
      const kpt::CallText made,
      kpt::plan_from_text(call, kpt::native_traits(*architecture, static_cast<int>(*multiprocessors)).shape));
  std::string answer = fmt::format("workspace {}\n", made.workspace_bytes);
  for (const kpt::gpu::Launch& launch : made.plan) answer += "launch " + kpt::to_text(launch) + "\n";
  return answer + "end";
}

// Without a compiler, with what `missing` says of it, kernels and plans are still told.
Result<std::string> answer(kpt::HipCompileCache* compiler, const Status& missing, std::string_view line) {
  const auto words = kpt::split(line, ' ');
  if (words.size() == 2 && words[0] == "kernels") return list_kernels(words[1]);
  if (words.size() >= 4 && words[0] == "plan") {
    return plan(words[1], words[2], line.substr(static_cast<std::size_t>(words[3].data() - line.data())));
  }
  if (compiler == nullptr) return missing;
  if (words.size() == 1 && words[0] == "compiler") return "ok " + compiler->compiler().version;
  if (words.size() == 4 && words[0] == "compile") return compile(*compiler, words[1], words[2], words[3]);
  return Status(StatusCode::kInvalidArgument, "the line is no question");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    kpt::log::error("usage: kpt_emulation_feed <cache folder>");
    return 2;
  }
  const auto compiler = kpt::find_hip_compiler(kpt::Environment::from_process(), "gfx950");
  auto cache = kpt::CompileCache::open(argv[1], 1U << 30U);
  if (!cache.ok()) {
    kpt::log::error(cache.status().to_string());
    return 1;
  }
  std::optional<kpt::HipCompileCache> compilations;
  if (compiler.ok()) compilations.emplace(*compiler, &*cache, std::chrono::minutes(10));
  for (std::string line; std::getline(std::cin, line);) {
    const Result<std::string> text = answer(compilations ? &*compilations : nullptr, compiler.status(), line);
    std::cout << (text.ok() ? *text : "error " + text.status().message()) << std::endl;
  }
  return 0;
}
