// kpt-pjrt-compile REQUEST RESULT: compiles one module with a PJRT plugin and writes the serialized executable.
//
// It exists so that a compilation can be stopped and a compiler may crash. Not for people: started by
// compile_in_child() in src/engines/xla.
#include <iostream>

#include "cli/end_with_parent.h"
#include "cli/exit_code.h"
#include "engines/xla/pjrt/compile_process.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: kpt-pjrt-compile REQUEST RESULT\n";
    return kpt::cli::kExitUsage;
  }
  if (!kpt::cli::end_with_parent()) return kpt::cli::kExitFailed;
  try {
    const kpt::Status status = kpt::pjrt::serve_compile_request(argv[1], argv[2]);
    if (status.ok()) return kpt::cli::kExitOk;
    std::cout << kpt::pjrt::describe_failure(status) << std::endl;
  } catch (const std::exception& error) {
    std::cerr << "kpt-pjrt-compile: " << error.what() << "\n";
  }
  return kpt::cli::kExitFailed;
}
