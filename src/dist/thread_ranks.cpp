#include "dist/thread_ranks.h"

#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"

namespace tessera::dist {
namespace {

using base::Exchange;

// The state that all ranks of a group share.
class Hub {
 public:
  explicit Hub(int size) : size_(static_cast<std::size_t>(size)), begun_(size_) {}

  int size() const { return static_cast<int>(size_); }

  void begin(int rank, Exchange exchange) {
    std::unique_lock lock(mutex_);
    if (error_) {
      const std::exception_ptr error = error_;
      lock.unlock();
      return exchange.then(error);
    }
    const std::int64_t number = begun_[static_cast<std::size_t>(rank)][exchange.name]++;
    const auto key = std::pair(exchange.name, number);
    Meeting& meeting = meetings_[key];
    meeting.parts.resize(size_);
    meeting.parts[static_cast<std::size_t>(rank)] = std::move(exchange);
    if (++meeting.arrived < size_) return;
    const Meeting complete = std::move(meeting);
    meetings_.erase(key);
    ++copying_;
    lock.unlock();
    const std::exception_ptr error = copy(complete);
    for (const auto& part : complete.parts) part->then(error);
    lock.lock();
    --copying_;
    copied_.notify_all();
  }

  void stop(int rank, std::string_view reason) {
    std::unique_lock lock(mutex_);
    if (!error_)
      error_ = std::make_exception_ptr(
          Error(ErrorKind::failed, fmt::format("rank {} of {} has stopped: {}", rank, size_, reason)));
    const std::exception_ptr error = error_;
    std::map<std::pair<std::string, std::int64_t>, Meeting> left = std::exchange(meetings_, {});
    copied_.wait(lock, [&] { return copying_ == 0; });
    lock.unlock();
    for (const auto& [key, meeting] : left) {
      for (const auto& part : meeting.parts) {
        if (part) part->then(error);
      }
    }
  }

 private:
  struct Meeting {
    std::vector<std::optional<Exchange>> parts;
    std::size_t arrived = 0;
  };

  // Copies what each rank sends to where the others receive it.
  std::exception_ptr copy(const Meeting& meeting) const {
    for (std::size_t from = 0; from < size_; ++from) {
      for (std::size_t to = 0; to < size_; ++to) {
        const std::span<const std::byte> sent = meeting.parts[from]->sends[to];
        const std::span<std::byte> received = meeting.parts[to]->receives[from];
        if (sent.size() != received.size())
          return std::make_exception_ptr(
              Error(ErrorKind::failed, fmt::format("rank {} sends {} bytes in '{}', but rank {} expects {}", from,
                                                   sent.size(), meeting.parts[from]->name, to, received.size())));
        if (!sent.empty()) std::memcpy(received.data(), sent.data(), sent.size());
      }
    }
    return nullptr;
  }

  const std::size_t size_;
  std::mutex mutex_;
  std::condition_variable copied_;
  std::vector<std::map<std::string, std::int64_t>> begun_;  // by rank: how often each name was begun
  std::map<std::pair<std::string, std::int64_t>, Meeting> meetings_;
  std::exception_ptr error_;
  int copying_ = 0;
};

class ThreadRank final : public base::Communicator {
 public:
  ThreadRank(std::shared_ptr<Hub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return hub_->size(); }
  void begin(Exchange exchange) override { hub_->begin(rank_, std::move(exchange)); }
  void stop(std::string_view reason) override { hub_->stop(rank_, reason); }

 private:
  const std::shared_ptr<Hub> hub_;
  const int rank_;
};

}  // namespace

std::vector<std::shared_ptr<base::Communicator>> make_thread_ranks(int size) {
  const auto hub = std::make_shared<Hub>(size);
  std::vector<std::shared_ptr<base::Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(std::make_shared<ThreadRank>(hub, rank));
  return ranks;
}

}  // namespace tessera::dist
