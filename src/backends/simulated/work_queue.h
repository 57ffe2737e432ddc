// The thread that executes the work of a simulated stream, in the order in which tasks were pushed.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace tessera::backends::simulated {

class WorkQueue {
 public:
  // `pauses`: a seed of short pauses before tasks, so that queues interleave in ever other orders; 0: none. Throws
  // Error(over_budget) if the system cannot start another thread.
  explicit WorkQueue(std::uint64_t pauses = 0);
  // Waits until the queue is empty; failures that nobody took are lost.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // An exception of the task becomes the queue's failure: later tasks do not run until take_failure() is called.
  void push(std::function<void()> task);
  // Pushes a task that runs even after a failure, which it receives as its argument (null: none). It must not throw.
  void push_always(std::function<void(const std::exception_ptr&)> task);
  // Pushes a task that forgets the failure of the tasks before it.
  void push_forget();
  // Waits until the queue is empty and returns its failure, or null; tasks run again afterwards. Not to be called by a
  // task.
  std::exception_ptr take_failure();

 private:
  struct Task {
    std::function<void()> work;
    std::function<void(const std::exception_ptr&)> always;
    bool forgets = false;
  };
  void push(Task task);
  void run_tasks();
  void pause();

  const std::uint64_t pauses_;
  std::uint64_t tasks_begun_ = 0;  // of the thread
  std::mutex mutex_;
  std::condition_variable pushed_, emptied_;
  std::deque<Task> tasks_;  // the first one is running if `running_`
  bool running_ = false, ends_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace tessera::backends::simulated
