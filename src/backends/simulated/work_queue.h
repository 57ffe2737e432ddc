// The thread of a simulated stream: what a GPU's queue is. Tasks run one after the other, in the order in which they
// were pushed.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace tessera::backends::simulated {

class WorkQueue {
 public:
  // Throws Error(over_budget) where the system has no thread left.
  WorkQueue();
  // Waits until the queue is empty; failures that nobody asked for are lost.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // What the task throws is the queue's failure: tasks behind it do not run until somebody takes it.
  void push(std::function<void()> task);
  // A task that runs after a failure too, and is handed it (null: none). It must not throw.
  void push_always(std::function<void(const std::exception_ptr&)> task);
  // Waits until the queue is empty, and returns its failure, after which tasks run again; null: there was none. Not to
  // be called by a task.
  std::exception_ptr take_failure();

 private:
  struct Task {
    std::function<void()> work;
    std::function<void(const std::exception_ptr&)> always;
  };
  void push(Task task);
  void run_tasks();

  std::mutex mutex_;
  std::condition_variable pushed_, emptied_;
  std::deque<Task> tasks_;  // the first is running where `running_`
  bool running_ = false, ends_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace tessera::backends::simulated
