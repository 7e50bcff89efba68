#include "base/reference_pages.h"

#include <array>
#include <string_view>

#include <fmt/format.h>

#include "base/environment.h"
#include "kpt/errors.h"

namespace kpt {
namespace {

struct CodeRow {
  std::string_view code;
  std::string_view exception;
  std::string_view parent;
  std::string_view meaning;
};

constexpr std::array kCodes = {
#define KPT_CODE_ROW(enumerator, text, exception, parent, meaning) CodeRow{text, #exception, #parent, meaning},
    KPT_STATUS_CODES(KPT_CODE_ROW)
#undef KPT_CODE_ROW
};

struct VendorRow {
  std::string_view name;
  std::string_view family;
  std::string_view vendor;
};

constexpr std::array kVendorErrors = {
#define KPT_VENDOR_ROW(name, family, vendor) VendorRow{#name, #family, #vendor},
    KPT_VENDOR_ERRORS(KPT_VENDOR_ROW)
#undef KPT_VENDOR_ROW
};

constexpr std::string_view kNotice =
    "<!-- Made by kpt_write_reference from tables in the code; edits here are lost. -->\n\n";

// A bar would end the cell.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string_view code_of(std::string_view family) {
  for (const CodeRow& row : kCodes) {
    if (row.exception == family) return row.code;
  }
  return "";
}

std::string variables_of(bool ours) {
  std::string table = ours ? "| variable | meaning |\n|---|---|\n" : "| variable | whose | meaning |\n|---|---|---|\n";
  for (const EnvironmentVariable& row : environment_table()) {
    if ((row.owner == "kpt") != ours) continue;
    table += ours ? fmt::format("| `{}` | {} |\n", row.name, cell(row.meaning))
                  : fmt::format("| `{}` | {} | {} |\n", row.name, row.owner, cell(row.meaning));
  }
  return table;
}

}  // namespace

std::string environment_page() {
  std::string page = "# Environment variables\n\n";
  page += kNotice;
  page +=
      "Every variable that the project reads. A variable set to the empty text counts as unset. Where the meaning is "
      "an "
      "option, the variable beats the configuration file and a flag beats the variable.\n\n"
      "## Ours\n\n";
  page += variables_of(true);
  page += "\n## Conventions of others that we follow\n\n";
  page += variables_of(false);
  return page;
}

std::string errors_page() {
  std::string page = "# Errors\n\n";
  page += kNotice;
  page +=
      "A failure has a code, the vendor whose stack failed (or none), and one sentence. Functions return it as "
      "`kpt::Status` or `kpt::Result<T>`; `kpt::throw_status` and `Result::value` throw it. Codes are stable: reports, "
      "JSON and logs carry them.\n\n"
      "## Codes and exceptions\n\n"
      "All exceptions are in namespace `kpt`. `catch` of a parent catches its children; `Error` is a "
      "`std::exception` and catches all.\n\n"
      "| code | exception | parent | meaning |\n|---|---|---|---|\n";
  for (const CodeRow& row : kCodes) {
    page += fmt::format("| `{}` | `{}` | `{}` | {} |\n", row.code, row.exception, row.parent, cell(row.meaning));
  }
  page +=
      "\n## Vendors\n\n"
      "A failure of a vendor's stack is thrown as `VendorFailure<Family, Root>`: it is caught by its family, by its "
      "family's parent, by both of these within its vendor (`RocmMemoryError` catches AMD's out-of-memory), by its "
      "vendor's root (`NvidiaError`, `AmdError` or `TpuError`) and by `Error`. Every code can come from every vendor; "
      "these combinations also have a name:\n\n"
      "| name | vendor root | family | code |\n|---|---|---|---|\n";
  for (const VendorRow& row : kVendorErrors) {
    page += fmt::format("| `{}` | `{}` | `{}` | `{}` |\n", row.name, row.vendor, row.family, code_of(row.family));
  }
  return page;
}

}  // namespace kpt
