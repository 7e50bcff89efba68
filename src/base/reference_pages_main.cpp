// kpt_write_reference <folder>: writes environment.md and errors.md there. For developers; not installed.
#include <filesystem>

#include "base/files.h"
#include "base/log.h"
#include "base/reference_pages.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    kpt::log::error("usage: kpt_write_reference <folder>, normally docs/reference");
    return 2;
  }
  const std::filesystem::path folder(argv[1]);
  for (const auto& [name, page] :
       {std::pair("environment.md", kpt::environment_page()), std::pair("errors.md", kpt::errors_page())}) {
    if (const kpt::Status status = kpt::write_file_atomically(folder / name, page); !status.ok()) {
      kpt::log::error(status.to_string());
      return 1;
    }
  }
  return 0;
}
