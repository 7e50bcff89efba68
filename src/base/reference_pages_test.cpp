#include "base/reference_pages.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/environment.h"
#include "base/files.h"
#include "kpt/errors.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using ::testing::HasSubstr;

void expect_committed(const std::string& name, const std::string& page) {
  const auto committed = read_text_file(source_dir() + "/docs/reference/" + name, 1 << 20);
  const std::string remedy = "docs/reference/" + name +
                             " is not what the tables say; write it anew with\n  cmake --build " + build_dir() +
                             " --target reference";
  ASSERT_TRUE(committed.ok()) << remedy;
  EXPECT_EQ(*committed, page) << remedy;
}

TEST(ReferencePages, CommittedEnvironmentPageIsCurrent) { expect_committed("environment.md", environment_page()); }

TEST(ReferencePages, CommittedErrorsPageIsCurrent) { expect_committed("errors.md", errors_page()); }

TEST(ReferencePages, EveryVariableHasItsRow) {
  const std::string page = environment_page();
  for (const EnvironmentVariable& row : environment_table()) {
    EXPECT_THAT(page, HasSubstr("| `" + std::string(row.name) + "` | ")) << row.name;
  }
}

TEST(ReferencePages, EveryCodeAndEveryVendorNameHasItsRow) {
  const std::string page = errors_page();
#define KPT_EXPECT_ROW(enumerator, text, exception, parent, meaning) \
  EXPECT_THAT(page, HasSubstr("| `" text "` | `" #exception "` | `" #parent "` | " meaning " |\n"));
  KPT_STATUS_CODES(KPT_EXPECT_ROW)
#undef KPT_EXPECT_ROW
#define KPT_EXPECT_VENDOR_ROW(name, family, vendor) \
  EXPECT_THAT(page, HasSubstr("| `" #name "` | `" #vendor "` | `" #family "` | `"));
  KPT_VENDOR_ERRORS(KPT_EXPECT_VENDOR_ROW)
#undef KPT_EXPECT_VENDOR_ROW
  EXPECT_THAT(page, HasSubstr("| `XlaCompilationTimeoutError` | `TpuError` | `CompilationTimeoutError` | "
                              "`compilation_timeout` |\n"));
}

}  // namespace
}  // namespace kpt
