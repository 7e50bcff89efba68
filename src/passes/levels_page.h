// docs/reference/levels.md, made from the table of the pipeline. The program kpt_write_levels writes it; a test holds
// the committed file equal to it.
#pragma once

#include <string>

namespace kpt {

std::string levels_page();

}  // namespace kpt
