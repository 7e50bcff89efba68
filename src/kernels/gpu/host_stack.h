// A stack that a function runs on while the caller's waits. Ours, because swapcontext() asks the kernel for the signal
// mask at every switch: half of the time of a kernel on the host.
#pragma once

#include <cstddef>

namespace kpt::gpu {

// Where a stack that does not run goes on.
using StackPlace = void*;

// `function(argument)` runs when the place is switched to; it never returns. `stack`: its lowest address.
StackPlace prepare_stack(void* stack, std::size_t bytes, void (*function)(void*), void* argument);

// Goes on at `to`; returns when somebody switches to `from`, which is set here.
void switch_stack(StackPlace* from, StackPlace to);

}  // namespace kpt::gpu
