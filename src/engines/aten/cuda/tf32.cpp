#include "engines/aten/cuda/tf32.h"

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

TwoKinds& kinds() {
  static TwoKinds both(allow, forbid);
  return both;
}

}  // namespace

Tf32Work::Tf32Work(bool allowed) : work_(kinds(), allowed) {}

}  // namespace kpt::aten
