// TF32 in products and convolutions of float32, for some runs and not for others. libtorch has one setting for the
// process, so runs with and without it do not queue work at the same time.
#pragma once

#include "engines/aten/two_kinds.h"

namespace kpt::aten {

// Held while a run queues or captures its work. Taken before the lock of captures, never inside it.
class Tf32Work {
 public:
  // Throws what libtorch throws about settings that a program around us has mixed.
  explicit Tf32Work(bool allowed);

 private:
  TwoKinds::Work work_;
};

}  // namespace kpt::aten
