// For programs whose answer is for the process that started them, on standard output.
#pragma once

#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>

namespace kpt::cli {

// Ends this process when the one that started it ends; false when it has ended already, so that nobody reads what is
// written to standard output.
inline bool end_with_parent() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  pollfd reader{STDOUT_FILENO, 0, 0};
  return ::poll(&reader, 1, 0) != 1 || (reader.revents & POLLERR) == 0;
}

}  // namespace kpt::cli
