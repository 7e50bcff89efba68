// What a long command is doing: one line that changes on a terminal, plain lines elsewhere.
#pragma once

#include <ostream>
#include <string>
#include <string_view>

namespace kpt::cli {

class Progress {
 public:
  // `terminal`: whether the reader can see a line change. Nothing is shown when `enabled` is false (--json).
  Progress(std::ostream& out, bool terminal, bool enabled) : out_(out), terminal_(terminal), enabled_(enabled) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { finish(); }

  // `done` from 0 to 1. The same step twice in a row is told once where lines do not change.
  void tell(std::string_view step, double done);
  // Takes the changing line away.
  void finish();

 private:
  std::ostream& out_;
  bool terminal_;
  bool enabled_;
  bool shown_ = false;
  std::string last_;
};

}  // namespace kpt::cli
