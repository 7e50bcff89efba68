// kpt_write_amd_kernels <folder> <cache folder> [--check]: writes amd_kernels.md there, or says whether the one there
// is current. For developers; not installed.
#include <filesystem>
#include <string_view>

#include "backends/amd/kernel_table.h"
#include "base/environment.h"
#include "base/files.h"
#include "base/log.h"

namespace {

int fail(const kpt::Status& status) {
  kpt::log::error(status.to_string());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const bool check = argc == 4 && std::string_view(argv[3]) == "--check";
  if (argc != 3 && !check) {
    kpt::log::error("usage: kpt_write_amd_kernels <folder, normally docs/reference> <cache folder> [--check]");
    return 2;
  }
  const std::filesystem::path path = std::filesystem::path(argv[1]) / "amd_kernels.md";
  // gfx950 is the target that the fewest compilers know.
  const auto compiler = kpt::find_hip_compiler(kpt::Environment::from_process(), "gfx950");
  if (!compiler.ok()) return fail(compiler.status());
  auto cache = kpt::CompileCache::open(argv[2], 1U << 30U);
  if (!cache.ok()) return fail(cache.status());
  kpt::HipCompileCache compilations(*compiler, &*cache, std::chrono::minutes(5));
  const auto page = kpt::kernel_table_page(compilations, kpt::kernel_table_targets());
  if (!page.ok()) return fail(page.status());
  if (!check) {
    const kpt::Status status = kpt::write_file_atomically(path, *page);
    return status.ok() ? 0 : fail(status);
  }
  const auto old = kpt::read_text_file(path, 1U << 20U);
  if (!old.ok()) return fail(old.status());
  if (*old == *page) return 0;
  return fail({kpt::StatusCode::kValidation, path.string() + " is old; write it anew with kpt_write_amd_kernels"});
}
