// For tests: folders that look like libtorch, and the driver run on them.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/child_process.h"
#include "engines/aten/torch_report.h"
#include "support/tree_paths.h"

namespace kpt::aten_test {

// A folder that is gone when the test ends.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    static std::atomic<int> counter{0};
    path_ = std::filesystem::temp_directory_path() / fmt::format("kpt_aten_test.{}.{}", ::getpid(), counter++);
    std::filesystem::create_directories(path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  const std::filesystem::path& path() const { return path_; }

  void write(const std::string& file, const std::string& content) const {
    const std::filesystem::path target = path_ / file;
    std::filesystem::create_directories(target.parent_path());
    std::ofstream(target, std::ios::binary) << content;
  }
  // Copies one of the libraries built for the tests.
  void copy_fake(const std::string& fake, const std::string& file) const {
    const std::filesystem::path target = path_ / file;
    std::filesystem::create_directories(target.parent_path());
    std::filesystem::copy_file(build_dir() + "/fakes/aten/" + fake + ".so", target,
                               std::filesystem::copy_options::overwrite_existing);
  }

 private:
  std::filesystem::path path_;
};

// A folder like a wheel's torch/, with a fake library inside.
class FakeTorch : public TemporaryFolder {
 public:
  FakeTorch(const std::string& library, const std::string& version_py) {
    copy_fake("fake_libtorch_silent", "lib/libc10.so");
    if (!library.empty()) copy_fake(library, "lib/libtorch_cpu.so");
    if (!version_py.empty()) write("version.py", version_py);
  }
};

inline std::string version_py(const std::string& version) {
  return fmt::format(
      "from typing import Optional\n\n__version__ = '{}'\ncuda: Optional[str] = '13.2'\n"
      "hip: Optional[str] = None\n",
      version);
}

struct ProbeAnswer {
  std::string code;
  std::string message;
  TorchReport report;
};

// Runs the driver with our modules taken from `module_dir`. A crash of the child fails the test.
inline ProbeAnswer run_driver(const std::vector<std::string>& arguments, const std::filesystem::path& module_dir) {
  ChildCommand command;
  command.arguments = {build_dir() + "/test_bin/torch_probe_driver"};
  command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
  command.environment_overrides = {"KPT_MODULE_DIR=" + module_dir.string()};
  command.time_limit = std::chrono::seconds(120);
  const ChildOutcome outcome = run_child(command).value();
  EXPECT_TRUE(outcome.succeeded()) << outcome.describe(command.time_limit) << "\n" << outcome.standard_error;
  ProbeAnswer answer;
  if (!outcome.succeeded()) return answer;
  const auto json = nlohmann::ordered_json::parse(outcome.standard_output);
  answer = {json.at("code"), json.at("message"), json.at("report").get<TorchReport>()};
  EXPECT_EQ(answer.message.find('\n'), std::string::npos) << answer.message;
  EXPECT_LT(answer.message.size(), 800u) << answer.message;
  return answer;
}

// Probes `torch_dirs` in turn in one child; the answer is about the last.
inline ProbeAnswer probe(const std::vector<std::string>& torch_dirs, const std::filesystem::path& module_dir,
                         std::uint64_t seed = 1) {
  std::vector<std::string> arguments = {std::to_string(seed)};
  arguments.insert(arguments.end(), torch_dirs.begin(), torch_dirs.end());
  return run_driver(arguments, module_dir);
}

}  // namespace kpt::aten_test
