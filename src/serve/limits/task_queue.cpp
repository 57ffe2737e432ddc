#include "serve/limits/task_queue.h"

#include <utility>

namespace tessera::serve {
namespace {

constexpr std::size_t kMostWaiting = 64;

}  // namespace

TaskQueue::TaskQueue(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

TaskQueue::~TaskQueue() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool TaskQueue::add(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (tasks_.size() >= kMostWaiting) return false;
  tasks_.push_back(std::move(task));
  changed_.notify_one();
  return true;
}

void TaskQueue::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stops_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace tessera::serve
