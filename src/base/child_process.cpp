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

Result<pid_t> spawn(const ChildCommand& command, const Pipe& out, const Pipe& err) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out.write_end(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, err.write_end(), STDERR_FILENO);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  ::posix_spawnattr_setpgroup(&attributes, 0);

  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> environment = merged_environment(command.environment_overrides);
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, arguments[0].c_str(), &actions, &attributes, pointers(arguments).data(),
                                   pointers(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    const StatusCode code = error == EACCES ? StatusCode::kPermissionDenied : StatusCode::kNotFound;
    return Status(code, fmt::format("cannot start {}: {}", arguments[0], std::strerror(error)));
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

// Reads both streams until both end or the deadline passes; true if the deadline passed.
bool collect_output(Pipe& out, Pipe& err, Clock::time_point deadline, std::size_t max_bytes, ChildOutcome& outcome) {
  std::array<pollfd, 2> streams = {pollfd{out.read_end(), POLLIN, 0}, pollfd{err.read_end(), POLLIN, 0}};
  const std::array<std::string*, 2> texts = {&outcome.standard_output, &outcome.standard_error};
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    const int left = milliseconds_left(deadline);
    if (left == 0) return true;
    if (::poll(streams.data(), streams.size(), left) < 0 && errno != EINTR) return false;
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (streams[i].fd >= 0 && streams[i].revents != 0 && !drain(streams[i].fd, *texts[i], max_bytes))
        streams[i].fd = -1;
    }
  }
  return false;
}

// Waits for the end of the child without reaping it (its process group stays addressable); false at the deadline.
bool wait_until(pid_t pid, Clock::time_point deadline) {
  while (true) {
    siginfo_t info{};
    const int failed = ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT);
    if ((failed == 0 && info.si_pid == pid) || (failed != 0 && errno != EINTR)) return true;
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

std::string ChildOutcome::describe(std::chrono::milliseconds time_limit) const {
  if (timed_out) return fmt::format("no answer within {:.1f} s", static_cast<double>(time_limit.count()) / 1000.0);
  if (signal != 0) return fmt::format("killed by signal {} ({})", signal, ::strsignal(signal));
  return fmt::format("exit code {}", exit_code);
}

Result<ChildOutcome> run_child(const ChildCommand& command) {
  if (command.arguments.empty()) return Status(StatusCode::kInvalidArgument, "no program was given to run");
  Pipe out;
  Pipe err;
  if (!out.ok() || !err.ok())
    return Status(StatusCode::kIo, fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  KPT_ASSIGN_OR_RETURN(const pid_t pid, spawn(command, out, err));
  out.close_end(1);
  err.close_end(1);

  const Clock::time_point deadline = Clock::now() + command.time_limit;
  ChildOutcome outcome;
  outcome.timed_out =
      collect_output(out, err, deadline, command.max_output_bytes, outcome) || !wait_until(pid, deadline);
  // At the limit this ends the child; after a normal end it ends grandchildren that stayed.
  ::kill(-pid, SIGKILL);
  int wait_status = 0;
  while (::waitpid(pid, &wait_status, 0) < 0 && errno == EINTR) {
  }
  if (outcome.timed_out) return outcome;
  if (WIFSIGNALED(wait_status)) {
    outcome.signal = WTERMSIG(wait_status);
  } else {
    outcome.exit_code = WEXITSTATUS(wait_status);
  }
  return outcome;
}

}  // namespace kpt
