// kpt_write_levels <folder>: writes levels.md there. For developers; not installed.
#include <filesystem>

#include "base/files.h"
#include "base/log.h"
#include "passes/levels_page.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    kpt::log::error("usage: kpt_write_levels <folder>, normally docs/reference");
    return 2;
  }
  const std::filesystem::path folder(argv[1]);
  if (const kpt::Status status = kpt::write_file_atomically(folder / "levels.md", kpt::levels_page()); !status.ok()) {
    kpt::log::error(status.to_string());
    return 1;
  }
  return 0;
}
