// Part of the server in builds with the thread sanitizer. gRPC is a library of the system without the sanitizer, which
// therefore does not see that what precedes an operation of a call precedes the callback of that operation, and would
// report every callback. These functions stand before those of the library of the same names, tell the sanitizer what
// gRPC promises about order, and go on in the library.
#include <absl/synchronization/mutex.h>
#include <dlfcn.h>
#include <grpc/grpc.h>
#include <grpcpp/support/server_callback.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>

extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);

namespace {

using Run = void (*)(grpc_completion_queue_functor*, int);

// The function that runs a callback is private to gRPC's headers, but arguments of an explicit instantiation may name
// it.
Run run_of_tag();
template <Run run>
struct Opened {
  friend Run run_of_tag() { return run; }
};
template struct Opened<&grpc::internal::CallbackWithSuccessTag::StaticRun>;

char server_starts, callback_ends;

template <typename Function>
Function* of_library(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// The library has the same function for the callbacks that it makes itself.
Run run_of_library() {
  static const Run run = of_library<std::remove_pointer_t<Run>>(
      "_ZN4grpc8internal22CallbackWithSuccessTag9StaticRunEP29grpc_completion_queue_functori");
  return run;
}

template <Run run()>
void run_in_order(grpc_completion_queue_functor* tag, int is_ok) {
  __tsan_acquire(tag);
  run()(tag, is_ok);
  __tsan_release(&callback_ends);
}

// Runs what gRPC would hand to a thread of its own, in a thread whose order is seen.
class Later {
 public:
  Later() {
    std::thread([this] {
      for (;;) take()();
    }).detach();
  }
  void add(std::function<void()> what) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(what));
    changed_.notify_one();
  }

 private:
  std::function<void()> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !queue_.empty(); });
    std::function<void()> what = std::move(queue_.front());
    queue_.pop_front();
    return what;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
};

Later& later() {
  static Later& one = *new Later;  // its thread does not end
  return one;
}

}  // namespace

extern "C" {

grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* operations, size_t count, void* tag,
                                      void* reserved) {
  static const auto library = of_library<decltype(grpc_call_start_batch)>("grpc_call_start_batch");
  // Tags of other kinds begin with a table of virtual functions, so that there is a pointer to compare.
  auto* functor = static_cast<grpc_completion_queue_functor*>(tag);
  if (functor != nullptr) {
    if (functor->functor_run == run_of_tag()) functor->functor_run = run_in_order<run_of_tag>;
    else if (functor->functor_run == run_of_library()) functor->functor_run = run_in_order<run_of_library>;
    __tsan_release(tag);
  }
  return library(call, operations, count, tag, reserved);
}

// Each call of a method begins with it.
void* grpc_call_arena_alloc(grpc_call* call, size_t size) {
  static const auto library = of_library<decltype(grpc_call_arena_alloc)>("grpc_call_arena_alloc");
  __tsan_acquire(&server_starts);
  return library(call, size);
}

void grpc_server_start(grpc_server* server) {
  __tsan_release(&server_starts);
  of_library<decltype(grpc_server_start)>("grpc_server_start")(server);
}

void grpc_server_destroy(grpc_server* server) {
  __tsan_acquire(&callback_ends);
  of_library<decltype(grpc_server_destroy)>("grpc_server_destroy")(server);
}

}  // extern "C"

// gRPC's headers lock these mutexes in reactors.
namespace absl {
ABSL_NAMESPACE_BEGIN

namespace {

#define TESSERA_TEXT_OF(name) #name
#define TESSERA_TEXT(name) TESSERA_TEXT_OF(name)

using OfMutex = void(Mutex*);

// The linker's name of a function of a mutex, which has the inner namespace of the installed library.
OfMutex* of_mutex(const std::string& function) {
  const std::string inner = TESSERA_TEXT(ABSL_OPTION_INLINE_NAMESPACE_NAME);
  const std::string name = "_ZN4absl" + std::to_string(inner.size()) + inner + "5Mutex" + function + "Ev";
  return of_library<OfMutex>(name.c_str());
}

}  // namespace

void Mutex::Lock() {
  static const auto library = of_mutex("4Lock");
  library(this);
  __tsan_acquire(this);
}

void Mutex::Unlock() {
  static const auto library = of_mutex("6Unlock");
  __tsan_release(this);
  library(this);
}

ABSL_NAMESPACE_END
}  // namespace absl

namespace grpc::internal {

// The library may have been the last one to count down.
void ServerCallbackCall::ScheduleOnDone(bool inline_ondone) {
  __tsan_acquire(&callbacks_outstanding_);
  const auto end = [this] {
    CallOnDone();
    __tsan_release(&callback_ends);
  };
  if (inline_ondone) end();
  else later().add(end);
}

void ServerCallbackCall::CallOnCancel(ServerReactor* reactor) {
  __tsan_acquire(&on_cancel_conditions_remaining_);
  if (reactor->InternalInlineable()) return reactor->OnCancel();
  Ref();
  later().add([this, reactor] {
    reactor->OnCancel();
    MaybeDone();
  });
}

}  // namespace grpc::internal
