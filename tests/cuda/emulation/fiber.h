// A thread of execution that runs until it switches away: one per emulated CUDA thread.
#pragma once

#include <cstddef>
#include <memory>

namespace tessera::emulation {

// The stack of the thread that called, or of one fiber. Switches are announced to the address and thread sanitizers
// where a build has them; the thread sanitizer is not told that a switch orders anything.
class Fiber {
 public:
  // Describes the stack of the calling thread.
  Fiber();
  // A fiber with a stack of its own, guarded at its lower end.
  explicit Fiber(std::size_t stack_bytes);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Lets the next switch to this fiber call entry(argument), whatever the fiber did before. `entry` must not return.
  void start(void (*entry)(void*), void* argument);
  // Leaves the running fiber `from` and continues this one.
  void switch_from(Fiber& from);
  // Tells the sanitizers that this fiber, which was left by a long jump out of `left`, runs.
  void resume_after_jump(Fiber& left);
  // Whether `address` lies in the guard page below the stack.
  bool overflowed_at(const void* address) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::emulation
