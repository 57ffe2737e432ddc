// Exchanges between the ranks of one training. The transports are in src/dist; kernels know this interface alone.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::base {

// One rank's part of an exchange: the bytes that it sends to each rank and receives from each, itself included. All
// ranks begin the exchanges of a name in the same order, and the sizes that they state agree.
struct Exchange {
  std::string name;                               // at most kMostExchangeName bytes
  std::vector<std::span<const std::byte>> sends;  // one per rank; may be empty
  std::vector<std::span<std::byte>> receives;     // one per rank; may be empty
  // Called exactly once, on any thread: with null when everything has been sent and received, otherwise with the
  // error. It must not throw, and may begin another exchange. From then on the communicator touches none of the bytes.
  std::function<void(std::exception_ptr)> then;
};

inline constexpr std::size_t kMostExchangeName = 55;

// A member of a group of ranks. Thread-safe. A communicator that has failed once fails every later exchange with the
// same error.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Begins the exchange and returns soon. Failures are reported through `then` alone.
  virtual void begin(Exchange exchange) = 0;
  // Fails all exchanges that are not complete, and all later ones, on every rank; other ranks name this rank and the
  // reason. When it returns, the bytes of no exchange are touched any more.
  virtual void stop(std::string_view reason) = 0;
  // Notes the step that this rank is at, for the messages of other ranks.
  virtual void set_step(std::int64_t) {}

  // Begins the exchange and waits for it; `exchange.then` is replaced. Throws Error(failed).
  void run(Exchange exchange);
  // Waits until all ranks have called it. Throws Error(failed).
  void barrier(const std::string& name);
  // Returns the answer of rank 0, on every rank. Throws Error(failed).
  bool agree(const std::string& name, bool answer);
  // Returns the bytes that rank 0 gives, on every rank; at most kMostBroadcastBytes. Throws Error(failed).
  std::vector<std::byte> broadcast(const std::string& name, std::span<const std::byte> bytes);
  // Returns what each rank gives, by rank; each at most kMostBroadcastBytes. Throws Error(failed).
  std::vector<std::vector<std::byte>> gather(const std::string& name, std::span<const std::byte> bytes);
};

inline constexpr std::int64_t kMostBroadcastBytes = std::int64_t{64} << 20;

// Waits for something that another thread completes once.
class Completion {
 public:
  void complete(std::exception_ptr error);
  // Returns whether it is complete. Throws the error that it was completed with.
  bool wait_for(std::chrono::nanoseconds patience);
  void wait();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool complete_ = false;
  std::exception_ptr error_;
};

// Graphs name a communicator by a number of this process, because attributes are numbers. The number is never 0, which
// stands for a group of one rank, and is not used again. The destructor of the handle forgets the communicator.
class CommunicatorNumber {
 public:
  explicit CommunicatorNumber(std::shared_ptr<Communicator> communicator);
  ~CommunicatorNumber();
  CommunicatorNumber(const CommunicatorNumber&) = delete;
  CommunicatorNumber& operator=(const CommunicatorNumber&) = delete;
  std::int64_t value() const { return value_; }

 private:
  std::int64_t value_;
};

// The communicator of that number. Throws Error(failed) if there is none, as in a graph of another process.
std::shared_ptr<Communicator> find_communicator(std::int64_t number);

}  // namespace tessera::base
