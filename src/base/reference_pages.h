// Pages of docs/reference that are made from tables in this module. The program kpt_write_reference writes them; a test
// holds the committed files equal to them.
#pragma once

#include <string>

namespace kpt {

// Markdown: every environment variable, by owner.
std::string environment_page();
// Markdown: every status code with its exception, and the vendors' names for them.
std::string errors_page();

}  // namespace kpt
