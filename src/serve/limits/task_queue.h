// Threads that do one thing after the other.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tessera::serve {

// Thread-safe. Tasks must not throw. The destructor waits for those that were added.
class TaskQueue {
 public:
  explicit TaskQueue(int threads = 1);
  ~TaskQueue();
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  // Returns false, and leaves the task undone, where 64 tasks wait.
  bool add(std::function<void()> task);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stops_ = false;
  std::vector<std::thread> threads_;  // last: they use the others
};

}  // namespace tessera::serve
