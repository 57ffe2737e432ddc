#include "emulation/fiber.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <cstdint>
#include <new>

#include "emulation/sanitizers.h"

namespace tessera::emulation {
namespace {

constexpr std::size_t kGuardBytes = 4096;

#if defined(__x86_64__)
// Pushes the registers that a call keeps, stores the stack pointer in *saved and continues at `next`, another stack
// that was left so.
extern "C" void tessera_emulation_switch(void** saved, void* next);
asm(R"(
.text
.globl tessera_emulation_switch
.hidden tessera_emulation_switch
.type tessera_emulation_switch,@function
tessera_emulation_switch:
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
.size tessera_emulation_switch,.-tessera_emulation_switch
)");
#endif

}  // namespace

struct Fiber::State {
  std::byte* stack = nullptr;  // null for the stack of the thread itself
  std::size_t bytes = 0;
  void (*entry)(void*) = nullptr;
  void* argument = nullptr;
#if defined(__x86_64__)
  void* pointer = nullptr;
#else
  ucontext_t context{};
#endif
  const void* known_bottom = nullptr;  // what the address sanitizer says of a thread's own stack
  std::size_t known_bytes = 0;
  void* shadow = nullptr;      // the address sanitizer's
  void* race_fiber = nullptr;  // the thread sanitizer's
  Fiber* left = nullptr;       // the fiber that switched here last
  static thread_local State* starting;

  TESSERA_UNWATCHED static void enter() {
    State& self = *starting;
    sanitizers::finish_switch(nullptr, &self.left->state_->known_bottom, &self.left->state_->known_bytes);
    self.entry(self.argument);
    __builtin_unreachable();
  }
};

thread_local Fiber::State* Fiber::State::starting = nullptr;

Fiber::Fiber() : state_(std::make_unique<State>()) {
  state_->race_fiber = sanitizers::this_race_fiber();
}

Fiber::Fiber(std::size_t stack_bytes) : state_(std::make_unique<State>()) {
  state_->bytes = (stack_bytes + kGuardBytes - 1) / kGuardBytes * kGuardBytes + kGuardBytes;
  void* memory =
      mmap(nullptr, state_->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  state_->stack = static_cast<std::byte*>(memory);
  mprotect(state_->stack, kGuardBytes, PROT_NONE);
  state_->race_fiber = sanitizers::new_race_fiber();
}

Fiber::~Fiber() {
  if (state_->stack == nullptr) return;
  sanitizers::unpoison(state_->stack + kGuardBytes, state_->bytes - kGuardBytes);
  munmap(state_->stack, state_->bytes);
  sanitizers::delete_race_fiber(state_->race_fiber);
}

void Fiber::start(void (*entry)(void*), void* argument) {
  state_->entry = entry;
  state_->argument = argument;
  state_->shadow = nullptr;
  sanitizers::unpoison(state_->stack + kGuardBytes, state_->bytes - kGuardBytes);
#if defined(__x86_64__)
  // The stack as tessera_emulation_switch leaves one: six registers, then where to return to; a called function finds
  // its stack pointer 8 bytes below a multiple of 16.
  auto top = reinterpret_cast<std::uintptr_t>(state_->stack + state_->bytes) & ~std::uintptr_t{15};
  auto* slots = reinterpret_cast<void**>(top) - 8;
  for (int i = 0; i < 8; ++i) slots[i] = nullptr;
  slots[6] = reinterpret_cast<void*>(&State::enter);
  state_->pointer = slots;
#else
  getcontext(&state_->context);
  state_->context.uc_stack.ss_sp = state_->stack + kGuardBytes;
  state_->context.uc_stack.ss_size = state_->bytes - kGuardBytes;
  state_->context.uc_link = nullptr;
  makecontext(&state_->context, &State::enter, 0);
#endif
}

TESSERA_UNWATCHED void Fiber::switch_from(Fiber& from) {
  State &to = *state_, &old = *from.state_;
  to.left = &from;
  State::starting = &to;
  const void* bottom = to.stack != nullptr ? to.stack + kGuardBytes : to.known_bottom;
  const std::size_t bytes = to.stack != nullptr ? to.bytes - kGuardBytes : to.known_bytes;
  sanitizers::start_switch(&old.shadow, bottom, bytes);
  sanitizers::switch_race_fiber(to.race_fiber);
#if defined(__x86_64__)
  tessera_emulation_switch(&old.pointer, to.pointer);
#else
  swapcontext(&old.context, &to.context);
#endif
  sanitizers::finish_switch(old.shadow, &old.left->state_->known_bottom, &old.left->state_->known_bytes);
}

void Fiber::resume_after_jump(Fiber& left) {
  void* abandoned = nullptr;
  sanitizers::start_switch(&abandoned, state_->known_bottom, state_->known_bytes);
  sanitizers::finish_switch(state_->shadow, nullptr, nullptr);
  sanitizers::switch_race_fiber(state_->race_fiber);
  (void)left;
}

bool Fiber::overflowed_at(const void* address) const {
  const auto* place = static_cast<const std::byte*>(address);
  return state_->stack != nullptr && place >= state_->stack && place < state_->stack + kGuardBytes;
}

}  // namespace tessera::emulation
