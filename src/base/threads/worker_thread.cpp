#include "base/threads/worker_thread.h"

#include <signal.h>

#include <memory>
#include <system_error>

#include "base/threads/short_slices.h"

namespace tessera::base {
namespace {

// The usual limit (ulimit -s). Under a smaller one a kernel's buffers might not fit; untouched pages take no memory.
constexpr std::size_t kStackBytes = std::size_t{8} << 20;

// The signals that worker threads block: all but those raised by a fault of the thread itself, which reach it in any
// case, and SIGPROF, which a profiler needs.
sigset_t signals_of_the_program() {
  sigset_t signals;
  sigfillset(&signals);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGPROF}) sigdelset(&signals, own);
  return signals;
}

void* run_body(void* given) {
  const std::unique_ptr<std::function<void()>> body(static_cast<std::function<void()>*>(given));
  ask_for_usual_slices();  // the thread that starts this one may have short slices
  (*body)();
  return nullptr;
}

}  // namespace

pthread_t start_worker_thread(std::function<void()> body) {
  auto owned = std::make_unique<std::function<void()>>(std::move(body));
  pthread_attr_t attributes;
  if (const int code = pthread_attr_init(&attributes)) throw std::system_error(code, std::generic_category());
  pthread_attr_setstacksize(&attributes, kStackBytes);
  // A thread inherits the mask of the one that starts it.
  const sigset_t blocked = signals_of_the_program();
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  pthread_t thread;
  const int code = pthread_create(&thread, &attributes, &run_body, owned.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (code != 0) throw std::system_error(code, std::generic_category());
  owned.release();
  return thread;
}

}  // namespace tessera::base
