#include "engines/aten/cuda/process_settings.h"

#include <ATen/Context.h>

namespace kpt::aten {
namespace {

// What a program around us allows already stays allowed afterwards. These functions are in all libtorch versions from
// 2.11 to 2.15, and set the newer form of the setting too.
struct Changed {
  bool products = false;
  bool convolutions = false;
};

Changed& changed() {
  static Changed changes;
  return changes;
}

void allow() {
  at::Context& context = at::globalContext();
  const Changed wanted{!context.allowTF32CuBLAS(), !context.allowTF32CuDNN()};
  if (wanted.products) context.setAllowTF32CuBLAS(true);
  if (wanted.convolutions) context.setAllowTF32CuDNN(true);
  changed() = wanted;
}

void forbid() {
  at::Context& context = at::globalContext();
  if (changed().products) context.setAllowTF32CuBLAS(false);
  if (changed().convolutions) context.setAllowTF32CuDNN(false);
  changed() = {};
}

TwoKinds& tf32_kinds() {
  static TwoKinds both(allow, forbid);
  return both;
}

TwoKinds& tuned_kinds() {
  static bool was_on = false;  // by a program around us
  static TwoKinds both(
      [] {
        was_on = at::globalContext().benchmarkCuDNN();
        at::globalContext().setBenchmarkCuDNN(true);
      },
      [] { at::globalContext().setBenchmarkCuDNN(was_on); });
  return both;
}

}  // namespace

Tf32Work::Tf32Work(bool allowed) : work_(tf32_kinds(), allowed) {}

TunedWork::TunedWork(bool tuned) : work_(tuned_kinds(), tuned) {}

}  // namespace kpt::aten
