#include "kernels/gpu/host_stack.h"

#include <array>
#include <cstdint>
#include <cstring>

// What a called function must keep is written to its stack; the place is the address below. A new stack looks as if it
// had been left so, with the function and its argument in two of the registers, and the address of kpt_begin_stack to
// return to.
#if defined(__x86_64__)
asm(R"(
.text
.p2align 4
.globl kpt_switch_stack
.hidden kpt_switch_stack
.type kpt_switch_stack, @function
kpt_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size kpt_switch_stack, . - kpt_switch_stack

.globl kpt_begin_stack
.hidden kpt_begin_stack
.type kpt_begin_stack, @function
kpt_begin_stack:
  movq %rbx, %rdi
  callq *%r12
  ud2
.size kpt_begin_stack, . - kpt_begin_stack
)");
#elif defined(__aarch64__)
asm(R"(
.text
.p2align 4
.globl kpt_switch_stack
.hidden kpt_switch_stack
.type kpt_switch_stack, %function
kpt_switch_stack:
  stp x29, x30, [sp, #-160]!
  stp x19, x20, [sp, #16]
  stp x21, x22, [sp, #32]
  stp x23, x24, [sp, #48]
  stp x25, x26, [sp, #64]
  stp x27, x28, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #16]
  ldp x21, x22, [sp, #32]
  ldp x23, x24, [sp, #48]
  ldp x25, x26, [sp, #64]
  ldp x27, x28, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  ldp x29, x30, [sp], #160
  ret
.size kpt_switch_stack, . - kpt_switch_stack

.globl kpt_begin_stack
.hidden kpt_begin_stack
.type kpt_begin_stack, %function
kpt_begin_stack:
  mov x0, x19
  blr x20
  brk #1
.size kpt_begin_stack, . - kpt_begin_stack
)");
#else
#error "kernels run on the host of x86_64 and aarch64"
#endif

extern "C" {
__attribute__((visibility("hidden"))) void kpt_switch_stack(void** from, void* to);
__attribute__((visibility("hidden"))) void kpt_begin_stack();
}

namespace kpt::gpu {

void switch_stack(StackPlace* from, StackPlace to) { kpt_switch_stack(from, to); }

StackPlace prepare_stack(void* stack, std::size_t bytes, void (*function)(void*), void* argument) {
  const auto number = [](auto pointer) { return reinterpret_cast<std::uintptr_t>(pointer); };
#if defined(__x86_64__)
  // r15, r14, r13, r12, rbx, rbp, the address to return to; behind it the stack is aligned to 16 bytes.
  const std::array<std::uintptr_t, 7> words{0, 0, 0, number(function), number(argument), 0, number(&kpt_begin_stack)};
#else
  // x29, x30, x19, x20 and what is zero
  const std::array<std::uintptr_t, 20> words{0, number(&kpt_begin_stack), number(argument), number(function)};
#endif
  const std::uintptr_t top = (number(stack) + bytes) & ~std::uintptr_t{15};
  auto* place = reinterpret_cast<void*>(top - sizeof(words));  // NOLINT(performance-no-int-to-ptr)
  std::memcpy(place, words.data(), sizeof(words));
  return place;
}

}  // namespace kpt::gpu
