// A benchmark as one web page that needs nothing else: no network, no script.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "benchmark/baseline.h"
#include "benchmark/report.h"
#include "kpt/status.h"

namespace kpt {

// What an artifact's report says about errors and limits; empty for a report without. `report` is the JSON that
// ArtifactTarget::report holds. Fails with kCorruptData.
Result<std::vector<OutputError>> read_output_errors(std::string_view report);

struct PageContent {
  const BenchmarkReport* report = nullptr;       // needed
  std::span<const ComparedEntry> compared = {};  // empty: no section
  double least_effect = 0;
  std::span<const OutputError> errors = {};  // empty: no section
};

// The HTML text. Names from files are escaped.
std::string make_page(const PageContent& content);

}  // namespace kpt
