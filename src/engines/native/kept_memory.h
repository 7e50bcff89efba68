// What a device may still read or write although nobody waits for it any more.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "engines/native/machine.h"
#include "kpt/status.h"

namespace kpt::native {

// Until the process ends.
void keep_forever(std::shared_ptr<void> memory);

// Waits for all that is queued on the stream, then lets it go. When nobody knows that it ended, by the limit or by a
// failure, the stream and `used` are kept for ever: freed memory would be somebody else's when the device writes it.
Status finish(std::unique_ptr<Stream> stream, std::chrono::milliseconds limit, std::vector<std::shared_ptr<void>> used);

}  // namespace kpt::native
