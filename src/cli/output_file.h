// Where the result of long work goes.
#pragma once

#include <string>
#include <vector>

#include "kpt/status.h"

namespace kpt::cli {

// To be asked before the work: whether `path` could be written, and is none of the files that the command reads. Empty
// paths on either side say nothing. Fails as check_writable(), and with kInvalidArgument where a file that is read
// would be overwritten, under whichever name. Where one of `read` is missing that is for its reader to say, first.
Status check_output(const std::string& path, const std::vector<std::string>& read);

}  // namespace kpt::cli
