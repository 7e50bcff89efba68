// How our programs end.
#pragma once

namespace kpt::cli {

// 0 ok, 1 failed, 2 usage, 3 ran, but the accuracy gate refused.
enum ExitCode : int { kExitOk = 0, kExitFailed = 1, kExitUsage = 2, kExitRefused = 3 };

}  // namespace kpt::cli
