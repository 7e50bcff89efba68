#include "base/child_process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/text.h"
#include "support/hardware_fixture.h"
#include "support/open_descriptors.h"

namespace kpt {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

ChildCommand shell(const std::string& script, std::chrono::milliseconds limit = 20s) {
  ChildCommand command;
  command.arguments = {"sh", "-c", script};
  command.time_limit = limit;
  return command;
}

ChildOutcome run(const ChildCommand& command) {
  const auto outcome = run_child(command);
  EXPECT_TRUE(outcome.ok()) << outcome.status().to_string();
  return outcome.ok() ? *outcome : ChildOutcome();
}

// A process that has ended may stay a moment as a zombie of the init process; that counts as gone.
bool is_alive(const std::string& pid) {
  const auto stat = read_text_file("/proc/" + pid + "/stat", 4096);
  return stat.ok() && stat->find(") Z ") == std::string::npos;
}

bool ends_soon(const std::string& pid) {
  for (int i = 0; i < 500 && is_alive(pid); ++i) std::this_thread::sleep_for(10ms);
  return !is_alive(pid);
}

TEST(RunChild, OutputAndExitCodeArriveSeparately) {
  const ChildOutcome outcome = run(shell("echo to-out; echo to-err >&2; exit 3"));
  EXPECT_EQ(outcome.standard_output, "to-out\n");
  EXPECT_EQ(outcome.standard_error, "to-err\n");
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_EQ(outcome.signal, 0);
  EXPECT_FALSE(outcome.timed_out);
  EXPECT_FALSE(outcome.succeeded());
  EXPECT_EQ(outcome.describe(20s), "exit code 3");
  EXPECT_TRUE(run(shell("true")).succeeded());
  EXPECT_EQ(run(shell("exit 255")).exit_code, 255);
}

TEST(RunChild, SignalIsReportedByNumberAndName) {
  const ChildOutcome outcome = run(shell("kill -SEGV $$"));
  EXPECT_EQ(outcome.signal, SIGSEGV);
  EXPECT_FALSE(outcome.succeeded());
  EXPECT_EQ(outcome.describe(20s), "killed by signal 11 (Segmentation fault)");
  EXPECT_EQ(run(shell("kill -ABRT $$")).signal, SIGABRT);
  EXPECT_EQ(run(shell("kill -KILL $$")).signal, SIGKILL);
  EXPECT_FALSE(run(shell("kill -KILL $$")).timed_out);
}

TEST(RunChild, SignalWithoutANameIsDescribedToo) {
  ChildOutcome outcome;
  outcome.signal = SIGRTMIN + 1;
  EXPECT_THAT(outcome.describe(1s), HasSubstr("killed by signal " + std::to_string(SIGRTMIN + 1)));
}

TEST(RunChild, TimeLimitKillsTheChildAndKeepsWhatItSaid) {
  const auto start = Clock::now();
  const ChildOutcome outcome = run(shell("echo early; sleep 60", 300ms));
  EXPECT_TRUE(outcome.timed_out);
  EXPECT_FALSE(outcome.succeeded());
  EXPECT_EQ(outcome.standard_output, "early\n");
  EXPECT_EQ(outcome.describe(300ms), "no answer within 0.3 s");
  EXPECT_GE(Clock::now() - start, 290ms);
  EXPECT_LT(Clock::now() - start, 20s);
}

TEST(RunChild, TimeLimitKillsAChildThatClosedItsStreams) {
  const ChildOutcome outcome = run(shell("exec >&- 2>&-; sleep 60", 300ms));
  EXPECT_TRUE(outcome.timed_out);
}

TEST(RunChild, TimeLimitKillsAChildThatIgnoresRequestsToEnd) {
  EXPECT_TRUE(run(shell("trap '' TERM INT HUP; while true; do sleep 1; done", 300ms)).timed_out);
}

TEST(RunChild, TimeLimitKillsGrandchildren) {
  const ChildOutcome outcome = run(shell("sleep 60 & echo $!; sh -c 'sleep 61 & echo $!; wait'", 500ms));
  EXPECT_TRUE(outcome.timed_out);
  const auto pids = split(trim(outcome.standard_output), '\n');
  ASSERT_EQ(pids.size(), 2u) << outcome.standard_output;
  for (const std::string_view pid : pids) EXPECT_TRUE(ends_soon(std::string(pid))) << pid;
}

TEST(RunChild, GrandchildThatKeepsTheStreamsDoesNotDelayTheAnswerAndEnds) {
  const auto start = Clock::now();
  const ChildOutcome outcome = run(shell("sleep 60 & echo $!"));
  EXPECT_LT(Clock::now() - start, 10s);
  EXPECT_TRUE(outcome.succeeded()) << outcome.describe(20s);
  EXPECT_TRUE(ends_soon(std::string(trim(outcome.standard_output))));
}

TEST(RunChild, TalkativeGrandchildDoesNotDelayTheAnswerEither) {
  const auto start = Clock::now();
  EXPECT_TRUE(run(shell("while true; do echo noise; done & exit 0")).succeeded());
  EXPECT_LT(Clock::now() - start, 10s);
}

TEST(RunChild, GrandchildInItsOwnSessionDoesNotDelayTheAnswer) {
  const testing::TemporaryFolder folder;
  const std::string mark = (folder.path() / "escaped").string();
  const auto start = Clock::now();
  const ChildOutcome outcome = run(shell("setsid sh -c 'echo $$ >\"$0.new\" && mv \"$0.new\" \"$0\"; exec sleep 60' '" +
                                         mark + "' & while [ ! -e '" + mark + "' ]; do sleep 0.01; done; echo answer"));
  EXPECT_LT(Clock::now() - start, 15s);
  EXPECT_TRUE(outcome.succeeded()) << outcome.describe(20s);
  EXPECT_EQ(outcome.standard_output, "answer\n");
  const auto pid = parse_int(trim(read_text_file(mark, 100).value_or("")));
  ASSERT_TRUE(pid.has_value());
  EXPECT_TRUE(is_alive(std::to_string(*pid))) << "it did not escape, so the test shows nothing";
  ::kill(static_cast<pid_t>(*pid), SIGKILL);
}

TEST(RunChild, LastWordsOfTheChildAreNotLost) {
  for (int i = 0; i < 20; ++i) {
    const ChildOutcome outcome = run(shell("sleep 60 & head -c 50000 /dev/zero | tr '\\0' x; echo end"));
    ASSERT_EQ(outcome.standard_output.size(), 50004u);
    ASSERT_TRUE(outcome.standard_output.ends_with("end\n"));
  }
}

TEST(RunChild, OutputBeyondTheCapIsDroppedWithoutADeadlock) {
  ChildCommand command = shell("head -c 5000000 /dev/zero; head -c 5000000 /dev/zero >&2; exit 7");
  command.max_output_bytes = 1000;
  const ChildOutcome outcome = run(command);
  EXPECT_EQ(outcome.exit_code, 7);
  EXPECT_EQ(outcome.standard_output.size(), 1000u);
  EXPECT_EQ(outcome.standard_error.size(), 1000u);
  command.max_output_bytes = 0;
  EXPECT_EQ(run(command).standard_output, "");
}

TEST(RunChild, BinaryOutputArrivesUnchanged) {
  EXPECT_EQ(run(shell("printf 'a\\000b\\377'")).standard_output, std::string("a\0b\xff", 4));
}

TEST(RunChild, StandardInputIsEmpty) { EXPECT_EQ(run(shell("cat; echo done")).standard_output, "done\n"); }

TEST(RunChild, ArgumentsArriveAsTheyAre) {
  ChildCommand command;
  command.arguments = {"printf", "[%s]", "a b", "", "$HOME", "\"'\\"};
  EXPECT_EQ(run(command).standard_output, "[a b][][$HOME][\"'\\]");
}

TEST(RunChild, MissingProgramIsNotFound) {
  for (const char* name : {"kpt-no-such-program", "/no/such/program", ""}) {
    ChildCommand command;
    command.arguments = {name};
    const auto outcome = run_child(command);
    ASSERT_FALSE(outcome.ok()) << name;
    EXPECT_EQ(outcome.status().code(), StatusCode::kNotFound) << outcome.status().to_string();
    EXPECT_THAT(outcome.status().message(), HasSubstr(name));
  }
  EXPECT_EQ(run_child(ChildCommand()).status().code(), StatusCode::kInvalidArgument);
}

TEST(RunChild, ProgramThatCannotBeExecutedSaysWhy) {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "program";
  std::ofstream(file) << "\x7f"
                         "ELF but nothing behind it";
  ChildCommand command;
  command.arguments = {file.string()};
  EXPECT_EQ(run_child(command).status().code(), StatusCode::kPermissionDenied);  // no execute bit: binds root too
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  EXPECT_EQ(run_child(command).status().code(), StatusCode::kIo);  // exec format error
}

TEST(RunChild, TooManyArgumentsAreNotTakenForAMissingProgram) {
  ChildCommand command;
  command.arguments = {"true", std::string(64 << 20, 'x')};
  EXPECT_EQ(run_child(command).status().code(), StatusCode::kIo);
}

TEST(RunChild, OverridesReplaceAndAddVariables) {
  ASSERT_EQ(::setenv("KPT_TEST_KEPT", "kept", 1), 0);     // NOLINT(concurrency-mt-unsafe): no other thread runs
  ASSERT_EQ(::setenv("KPT_TEST_REPLACED", "old", 1), 0);  // NOLINT(concurrency-mt-unsafe)
  ChildCommand command = shell("env | grep ^KPT_TEST_ | sort");
  command.environment_overrides = {"KPT_TEST_REPLACED=new=er", "KPT_TEST_ADDED=", "KPT_TEST=short"};
  EXPECT_EQ(run(command).standard_output, "KPT_TEST_ADDED=\nKPT_TEST_KEPT=kept\nKPT_TEST_REPLACED=new=er\n");
  ASSERT_EQ(::unsetenv("KPT_TEST_KEPT"), 0);      // NOLINT(concurrency-mt-unsafe)
  ASSERT_EQ(::unsetenv("KPT_TEST_REPLACED"), 0);  // NOLINT(concurrency-mt-unsafe)
}

TEST(RunChild, ChildLeadsItsOwnProcessGroup) {
  const ChildOutcome outcome = run(shell("echo $$; cut -d' ' -f5 /proc/$$/stat"));
  const auto lines = split(trim(outcome.standard_output), '\n');
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], lines[1]);
  EXPECT_NE(parse_int(lines[1]), ::getpgrp());
}

TEST(RunChild, ChildDoesNotInheritBlockedOrIgnoredSignals) {
  sigset_t blocked;
  sigset_t before;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGTERM);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
  const auto handler = ::signal(SIGPIPE, SIG_IGN);
  const std::string status = run(shell("cat /proc/self/status")).standard_output;
  ::signal(SIGPIPE, handler);
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
  const auto mask = [&](const std::string& name) {
    const auto at = status.find(name + ":\t");
    return at == std::string::npos ? std::nullopt : parse_uint(trim(status.substr(at + name.size() + 2, 16)), 16);
  };
  EXPECT_EQ(mask("SigBlk"), 0u);
  ASSERT_TRUE(mask("SigIgn").has_value());
  EXPECT_EQ(*mask("SigIgn") >> (SIGPIPE - 1) & 1, 0u);
}

// Where SIGCHLD is ignored the system throws the exit code away; that must not read as exit code 0.
TEST(RunChild, UnknowableEndIsAFailureNotASuccess) {
  const auto handler = ::signal(SIGCHLD, SIG_IGN);
  const auto outcome = run_child(shell("exit 3"));
  ::signal(SIGCHLD, handler);
  ASSERT_FALSE(outcome.ok()) << outcome->describe(20s);
  EXPECT_EQ(outcome.status().code(), StatusCode::kIo);
}

TEST(RunChild, SignalsToThisThreadDoNotStretchTheLimit) {
  struct sigaction action{};
  action.sa_handler = [](int) {};
  struct sigaction before{};
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);  // without SA_RESTART: poll and read are interrupted
  std::atomic<bool> stop{false};
  const pthread_t target = ::pthread_self();
  std::thread sender([&] {
    while (!stop.load()) {
      ::pthread_kill(target, SIGUSR1);
      std::this_thread::sleep_for(1ms);
    }
  });
  const auto start = Clock::now();
  const ChildOutcome slow = run(shell("echo once; sleep 60", 400ms));
  const auto took = Clock::now() - start;
  const ChildOutcome quick = run(shell("echo quick; exit 4"));
  stop.store(true);
  sender.join();
  ASSERT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
  EXPECT_TRUE(slow.timed_out);
  EXPECT_LT(took, 20s);
  EXPECT_EQ(quick.exit_code, 4);
  EXPECT_EQ(quick.standard_output, "quick\n");
}

TEST(RunChild, ExtremeLimitsAreTaken) {
  EXPECT_TRUE(run(shell("true", std::chrono::milliseconds::max())).succeeded());
  EXPECT_TRUE(run(shell("sleep 60", 0ms)).timed_out);
  EXPECT_TRUE(run(shell("sleep 60", -5s)).timed_out);
}

TEST(RunChild, NoDescriptorAndNoZombieStays) {
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 5; ++i) {
    run(shell("true"));
    run(shell("sleep 60", 20ms));
    ChildCommand missing;
    missing.arguments = {"kpt-no-such-program"};
    EXPECT_FALSE(run_child(missing).ok());
  }
  EXPECT_EQ(open_descriptors(), before);
  const auto children = read_text_file("/proc/self/task/" + std::to_string(::getpid()) + "/children", 4096);
  EXPECT_EQ(trim(children.value_or("")), "");  // kernels without the file cannot tell
}

TEST(RunChild, ManyThreadsAtOnceGetTheirOwnAnswersAndLeakNoPipes) {
  const ChildCommand list = shell("ls /proc/self/fd | wc -l");
  const std::string alone = run(list).standard_output;
  std::atomic<int> faults{0};
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 8; ++i) {
        const std::string word = std::to_string(t) + "-" + std::to_string(i);
        const auto outcome = run_child(shell("echo " + word + "; exit " + std::to_string(t)));
        if (!outcome.ok() || outcome->standard_output != word + "\n" || outcome->exit_code != t) ++faults;
        const auto listed = run_child(list);
        if (!listed.ok() || listed->standard_output != alone) ++faults;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(faults.load(), 0);
}

// The program may have been started without standard streams; the pipes then take their numbers.
TEST(RunChildDeathTest, WorksWhenThisProcessHasNoStandardStreams) {
  const auto check = [] {
    for (const int closed : {0b111, 0b011, 0b101, 0b110, 0b001, 0b010, 0b100}) {
      const pid_t pid = ::fork();
      if (pid == 0) {
        for (int fd = 0; fd < 3; ++fd) {
          if ((closed >> fd & 1) != 0) ::close(fd);
        }
        const auto outcome = run_child(shell("echo out; echo err >&2; cat"));
        const bool good = outcome.ok() && outcome->succeeded() && outcome->standard_output == "out\n" &&
                          outcome->standard_error == "err\n";
        ::_exit(good ? 0 : 1);
      }
      int status = 0;
      if (::waitpid(pid, &status, 0) != pid || status != 0) ::_exit(10 + closed);
    }
    ::_exit(0);
  };
  EXPECT_EXIT(check(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace kpt
