// Machines written down as JSON, so that detection runs without the hardware.
//
// A fixture is one file below tests/data/hardware/<kind>/:
//   {
//     "description": "one sentence",
//     "files":       {"/sys/…": content},       the machine's files; see below
//     "environment": {"CUDA_VISIBLE_DEVICES": "0"},
//     "driver":      {…},                        what the fake vendor library shall answer (tests/fakes/fake_spec.h);
//                                                "libraries": […] names the ones installed (all, if it is not there),
//                                                "ends_process": true says that the library crashes or hangs
//     "expect":      {…}                         a part of the report; see find_difference()
//   }
// A file's content is a string, a list of lines, or an object with any of
//   "content": string or list of lines,
//   "mode":    "000"       permission bits in octal; SystemFiles::can_open() respects them below a recorded root
//   "link":    "target"    a symbolic link instead of a file
//   "folder":  true        an empty folder
//   "pattern": "text", "repeat": 1000      a long file
// "$ROOT" inside an environment value stands for the folder that holds the files.
//
// Faults in a fixture are faults of the test: everything here throws std::runtime_error that names the file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "device/detection_context.h"

namespace kpt::testing {

// A folder of its own in the system's temporary folder, removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class HardwareFixture {
 public:
  // Reads the fixture and writes its files below a temporary folder that lives as long as the object.
  static HardwareFixture load(const std::filesystem::path& path);
  static HardwareFixture parse(std::string_view text, const std::string& name);

  const std::string& name() const { return name_; }
  const std::string& description() const { return description_; }
  // The recorded machine: its files, its environment and nothing of this process.
  DetectionContext context() const;
  const nlohmann::ordered_json& driver() const { return driver_; }
  const nlohmann::ordered_json& expect() const { return expect_; }
  // False if the fixture says that this library ("libcuda.so.1") is not installed.
  bool has_library(std::string_view file_name) const;
  // True if the fake library crashes or hangs: to be driven in a child process only.
  bool ends_process() const { return driver_.is_object() && driver_.value("ends_process", false); }
  std::filesystem::path root() const { return folder_.path() / "root"; }
  // The "driver" part as a file, for a fake library to read.
  std::filesystem::path driver_file() const { return folder_.path() / "driver.json"; }

 private:
  HardwareFixture() = default;

  std::string name_;
  std::string description_;
  TemporaryFolder folder_;
  Environment environment_;
  nlohmann::ordered_json driver_;
  nlohmann::ordered_json expect_;
};

// All fixtures of a kind ("nvidia", "cpu", …), sorted by name. Throws when there are none.
std::vector<std::filesystem::path> list_fixtures(std::string_view kind);
// Those whose fake library can be driven inside the test's own process.
std::vector<std::filesystem::path> list_fixtures_that_return(std::string_view kind);

// Names a parametrised case after its fixture's file.
struct FixtureName {
  template <typename Info>
  std::string operator()(const Info& info) const {
    return info.param.stem().string();
  }
};

// The first place where `actual` does not have what `expected` asks, e.g.
// "/gpus/0/name: expected \"NVIDIA L4\", got \"\""; nothing when all is there.
// Objects: every key of `expected` must match, further keys are free. Lists: same length, each element must match.
// {"$contains": x}: a string must contain x, a list must have an element that matches x.
// {"$size": n}: a list or string has n elements. {"$absent": x}: no element matches x, or the string lacks x.
std::optional<std::string> find_difference(const nlohmann::ordered_json& expected,
                                           const nlohmann::ordered_json& actual);

}  // namespace kpt::testing
