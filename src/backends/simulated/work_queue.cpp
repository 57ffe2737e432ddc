#include "backends/simulated/work_queue.h"

#include <chrono>
#include <system_error>

#include "base/error.h"
#include "base/numbers/philox.h"

namespace tessera::backends::simulated {

WorkQueue::WorkQueue(std::uint64_t pauses) : pauses_(pauses) {
  try {
    thread_ = std::thread([this] { run_tasks(); });
  } catch (const std::system_error&) {
    fail(ErrorKind::over_budget, "the system gives no thread for a stream of a simulated device");
  }
}

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  pushed_.notify_one();
  thread_.join();
}

void WorkQueue::push(std::function<void()> task) {
  push(Task{.work = std::move(task), .always = nullptr});
}

void WorkQueue::push_always(std::function<void(const std::exception_ptr&)> task) {
  push(Task{.work = nullptr, .always = std::move(task)});
}

void WorkQueue::push_forget() {
  push(Task{.work = nullptr, .always = nullptr, .forgets = true});
}

void WorkQueue::push(Task task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  pushed_.notify_one();
}

std::exception_ptr WorkQueue::take_failure() {
  std::unique_lock lock(mutex_);
  emptied_.wait(lock, [this] { return tasks_.empty() && !running_; });
  return std::exchange(failure_, nullptr);
}

// Every fourth task is late by up to 64 us.
void WorkQueue::pause() {
  const std::uint64_t random = base::Philox(pauses_, tasks_begun_++).next_u64();
  if (random % 4 == 0) std::this_thread::sleep_for(std::chrono::nanoseconds(random >> 48));
}

void WorkQueue::run_tasks() {
  std::unique_lock lock(mutex_);
  while (true) {
    pushed_.wait(lock, [this] { return ends_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    running_ = true;
    std::exception_ptr failure = failure_;
    lock.unlock();
    if (pauses_ != 0) pause();
    if (task.forgets) {
      failure = nullptr;
    } else if (task.always) {
      task.always(failure);
    } else if (failure == nullptr) {
      try {
        task.work();
      } catch (...) {
        failure = std::current_exception();
      }
    }
    task = {};  // frees what it holds (perhaps device memory) before anybody learns that it ended
    lock.lock();
    failure_ = failure;
    running_ = false;
    if (tasks_.empty()) emptied_.notify_all();
  }
}

}  // namespace tessera::backends::simulated
