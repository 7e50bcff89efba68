#include "base/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>
#include <thread>

#include <fmt/format.h>

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to the program to declare

namespace kpt {
namespace {

using Clock = std::chrono::steady_clock;

class Pipe {
 public:
  Pipe() { ok_ = ::pipe2(ends_.data(), O_CLOEXEC) == 0; }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  bool ok() const { return ok_; }
  int read_end() const { return ends_[0]; }
  int write_end() const { return ends_[1]; }
  void close_end(std::size_t which) {
    if (ends_[which] >= 0) ::close(ends_[which]);
    ends_[which] = -1;
  }

 private:
  std::array<int, 2> ends_ = {-1, -1};
  bool ok_ = false;
};

std::vector<std::string> merged_environment(const std::vector<std::string>& overrides) {
  const auto same_name = [](std::string_view a, std::string_view b) {
    return a.substr(0, a.find('=')) == b.substr(0, b.find('='));
  };
  std::vector<std::string> merged;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const bool replaced = std::ranges::any_of(overrides, [&](const std::string& o) { return same_name(o, *entry); });
    if (!replaced) merged.emplace_back(*entry);
  }
  merged.insert(merged.end(), overrides.begin(), overrides.end());
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (std::string& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

StatusCode start_failure(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR: return StatusCode::kNotFound;
    case EACCES:
    case EPERM: return StatusCode::kPermissionDenied;
    default: return StatusCode::kIo;
  }
}

Result<pid_t> spawn(const ChildCommand& command, const Pipe& out, const Pipe& err) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out.write_end(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, err.write_end(), STDERR_FILENO);
  // A server blocks signals in its threads and ignores SIGPIPE; neither is meant for the programs it runs.
  sigset_t blocked;
  sigset_t defaults;
  ::sigemptyset(&blocked);
  ::sigemptyset(&defaults);
  ::sigaddset(&defaults, SIGPIPE);
  ::posix_spawnattr_setsigmask(&attributes, &blocked);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  ::posix_spawnattr_setpgroup(&attributes, 0);

  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> environment = merged_environment(command.environment_overrides);
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, arguments[0].c_str(), &actions, &attributes, pointers(arguments).data(),
                                   pointers(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    return Status(start_failure(error),
                  fmt::format("cannot start {}: {}", arguments[0], std::generic_category().message(error)));
  }
  return pid;
}

// Moves what is there into `text`; false at the end of the stream.
bool drain(int fd, std::string& text, std::size_t max_bytes) {
  std::array<char, 8192> block;
  const ssize_t count = ::read(fd, block.data(), block.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  if (count == 0) return false;
  const std::size_t room = max_bytes > text.size() ? max_bytes - text.size() : 0;
  text.append(block.data(), std::min(room, static_cast<std::size_t>(count)));
  return true;
}

int milliseconds_left(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

// kLost: the process ignores SIGCHLD or someone else reaped the child, so nobody can say how it ended.
enum class ChildState { kRunning, kEnded, kLost };

// Asks without reaping: while the dead child is kept, its process group cannot become someone else's.
ChildState state_of(pid_t pid) {
  siginfo_t info{};
  int failed = 0;
  do {
    failed = ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT);
  } while (failed != 0 && errno == EINTR);
  if (failed != 0) return ChildState::kLost;
  return info.si_pid == pid ? ChildState::kEnded : ChildState::kRunning;
}

// Reads both streams until the child has ended and nothing is left in them, or the deadline passes. Waiting for the end
// of the streams alone would not do: a grandchild can hold them open long after the child is gone.
ChildState collect_output(pid_t pid, const Pipe& out, const Pipe& err, Clock::time_point deadline,
                          std::size_t max_bytes, ChildOutcome& outcome) {
  std::array<pollfd, 2> streams = {pollfd{out.read_end(), POLLIN, 0}, pollfd{err.read_end(), POLLIN, 0}};
  const std::array<std::string*, 2> texts = {&outcome.standard_output, &outcome.standard_error};
  while (true) {
    const ChildState state = state_of(pid);
    if (state == ChildState::kEnded) ::kill(-pid, SIGKILL);  // grandchildren that stayed
    const bool open = streams[0].fd >= 0 || streams[1].fd >= 0;
    const int left = milliseconds_left(deadline);
    if (left == 0 || (!open && state != ChildState::kRunning)) return state;
    // The end of the child usually closes the streams, which wakes poll; only a grandchild makes us look again.
    const int pause = state != ChildState::kRunning ? 0 : std::min(left, open ? 20 : 1);
    const int ready = ::poll(streams.data(), streams.size(), pause);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0 || (ready == 0 && state != ChildState::kRunning)) return state;
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (streams[i].fd >= 0 && streams[i].revents != 0 && !drain(streams[i].fd, *texts[i], max_bytes))
        streams[i].fd = -1;
    }
  }
}

// Ends the child and everything in its group. A process that hangs inside a driver call cannot be killed until that
// call returns: after a second it is left behind, as a zombie at most, so that the caller goes on.
void kill_and_reap(pid_t pid) {
  ::kill(-pid, SIGKILL);
  const Clock::time_point patience = Clock::now() + std::chrono::seconds(1);
  int ignored = 0;
  while (::waitpid(pid, &ignored, WNOHANG) == 0 && Clock::now() < patience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

std::string ChildOutcome::describe(std::chrono::milliseconds time_limit) const {
  if (timed_out) return fmt::format("no answer within {:.1f} s", static_cast<double>(time_limit.count()) / 1000.0);
  if (signal != 0) {
    const char* description = ::sigdescr_np(signal);  // none for real-time signals
    return fmt::format("killed by signal {} ({})", signal, description != nullptr ? description : "unnamed");
  }
  return fmt::format("exit code {}", exit_code);
}

Result<ChildOutcome> run_child(const ChildCommand& command) {
  if (command.arguments.empty()) return Status(StatusCode::kInvalidArgument, "no program was given to run");
  Pipe out;
  Pipe err;
  if (!out.ok() || !err.ok())
    return Status(StatusCode::kIo, fmt::format("cannot make a pipe: {}", std::generic_category().message(errno)));
  KPT_ASSIGN_OR_RETURN(const pid_t pid, spawn(command, out, err));
  out.close_end(1);
  err.close_end(1);

  // A limit of centuries would overflow the clock.
  const auto limit = std::min<std::chrono::milliseconds>(command.time_limit, std::chrono::hours(24 * 365));
  ChildOutcome outcome;
  const ChildState state = collect_output(pid, out, err, Clock::now() + limit, command.max_output_bytes, outcome);
  outcome.timed_out = state == ChildState::kRunning;
  if (outcome.timed_out) {
    kill_and_reap(pid);
    return outcome;
  }
  int wait_status = 0;
  pid_t reaped = -1;
  do {
    reaped = ::waitpid(pid, &wait_status, 0);
  } while (reaped < 0 && errno == EINTR);
  if (reaped != pid) {
    return Status(StatusCode::kIo, fmt::format("cannot learn how {} ended: {}", command.arguments[0],
                                               std::generic_category().message(errno)));
  }
  if (WIFSIGNALED(wait_status)) {
    outcome.signal = WTERMSIG(wait_status);
  } else {
    outcome.exit_code = WEXITSTATUS(wait_status);
  }
  return outcome;
}

}  // namespace kpt
