// Settings of libtorch's for the process that hold for some runs and not for others: those with and without one do not
// queue work at the same time. Held while a run queues or captures its work; taken in this order, before the lock of
// captures and never inside it.
#pragma once

#include "engines/aten/two_kinds.h"

namespace kpt::aten {

// TF32 in products and convolutions of float32.
class Tf32Work {
 public:
  // Throws what libtorch throws about settings that a program around us has mixed.
  explicit Tf32Work(bool allowed);

 private:
  TwoKinds::Work work_;
};

// cuDNN's algorithms for convolutions by measuring, in the first run of a shape.
class TunedWork {
 public:
  explicit TunedWork(bool tuned);

 private:
  TwoKinds::Work work_;
};

}  // namespace kpt::aten
