#include "base/communicator.h"

#include <cstring>
#include <map>

#include "base/error.h"

namespace tessera::base {

void Completion::complete(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  complete_ = true;
  error_ = std::move(error);
  changed_.notify_all();
}

bool Completion::wait_for(std::chrono::nanoseconds patience) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, patience, [&] { return complete_; })) return false;
  if (error_) std::rethrow_exception(error_);
  return true;
}

void Completion::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return complete_; });
  if (error_) std::rethrow_exception(error_);
}

void Communicator::run(Exchange exchange) {
  const auto done = std::make_shared<Completion>();
  exchange.then = [done](std::exception_ptr error) { done->complete(std::move(error)); };
  begin(std::move(exchange));
  done->wait();
}

void Communicator::barrier(const std::string& name) {
  const auto ranks = static_cast<std::size_t>(size());
  std::vector<std::byte> own(1), others(ranks);
  Exchange exchange{name, {}, {}, {}};
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    exchange.sends.emplace_back(own);
    exchange.receives.emplace_back(&others[rank], 1);
  }
  run(std::move(exchange));
}

bool Communicator::agree(const std::string& name, bool answer) {
  const auto ranks = static_cast<std::size_t>(size());
  std::byte own{answer}, decided{};
  Exchange exchange{name, {}, {}, {}};
  for (std::size_t each = 0; each < ranks; ++each) {
    exchange.sends.emplace_back(&own, rank() == 0 ? 1 : 0);
    exchange.receives.emplace_back(&decided, each == 0 ? 1 : 0);
  }
  run(std::move(exchange));
  return decided != std::byte{0};
}

std::vector<std::vector<std::byte>> Communicator::gather(const std::string& name, std::span<const std::byte> bytes) {
  const auto ranks = static_cast<std::size_t>(size());
  require(static_cast<std::int64_t>(bytes.size()) <= kMostBroadcastBytes, ErrorKind::failed,
          "'{}' has {} bytes, more than one exchange between ranks may have ({})", name, bytes.size(),
          kMostBroadcastBytes);
  std::int64_t own = static_cast<std::int64_t>(bytes.size());
  std::vector<std::int64_t> sizes(ranks);
  Exchange first{name + " size", {}, {}, {}}, second{name, {}, {}, {}};
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    first.sends.push_back(std::as_bytes(std::span(&own, 1)));
    first.receives.push_back(std::as_writable_bytes(std::span(&sizes[rank], 1)));
  }
  run(std::move(first));
  std::vector<std::vector<std::byte>> gathered(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    require(sizes[rank] >= 0 && sizes[rank] <= kMostBroadcastBytes, ErrorKind::failed,
            "rank {} announces {} bytes for '{}', expected at most {}", rank, sizes[rank], name, kMostBroadcastBytes);
    gathered[rank].resize(static_cast<std::size_t>(sizes[rank]));
    second.sends.push_back(bytes);
    second.receives.emplace_back(gathered[rank]);
  }
  run(std::move(second));
  return gathered;
}

std::vector<std::byte> Communicator::broadcast(const std::string& name, std::span<const std::byte> bytes) {
  return std::move(gather(name, rank() == 0 ? bytes : std::span<const std::byte>())[0]);
}

namespace {

struct Numbered {
  std::mutex mutex;
  std::map<std::int64_t, std::shared_ptr<Communicator>> all;
  std::int64_t next = 1;
};

Numbered& numbered() {
  static Numbered* const kept = new Numbered;
  return *kept;
}

}  // namespace

CommunicatorNumber::CommunicatorNumber(std::shared_ptr<Communicator> communicator) {
  const std::lock_guard lock(numbered().mutex);
  value_ = numbered().next++;
  numbered().all[value_] = std::move(communicator);
}

CommunicatorNumber::~CommunicatorNumber() {
  const std::lock_guard lock(numbered().mutex);
  numbered().all.erase(value_);
}

std::shared_ptr<Communicator> find_communicator(std::int64_t number) {
  const std::lock_guard lock(numbered().mutex);
  const auto found = numbered().all.find(number);
  require(found != numbered().all.end(), ErrorKind::failed,
          "the graph exchanges sums with the ranks of group {}, which this process is not a member of", number);
  return found->second;
}

}  // namespace tessera::base
