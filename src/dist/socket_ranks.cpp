// Length: one thread's loop over all sockets, whose parts share the state of the peers.
#include "dist/socket_ranks.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/threads/worker_thread.h"
#include "dist/rank_message.h"

namespace tessera::dist {
namespace {

using base::Exchange;
using Clock = std::chrono::steady_clock;

// How often a rank that has nothing to send says that it is alive, and time-outs are looked at.
constexpr std::chrono::milliseconds kHeartbeat{500};

using Key = std::pair<std::string, std::int64_t>;  // an exchange: its name and its number among those of that name

struct Outgoing {
  RankHeader header;
  std::span<const std::byte> payload;
  std::string reason;  // owns the payload of a failure
  std::shared_ptr<struct Posted> exchange;
};

// An exchange that is not complete.
struct Posted {
  Exchange exchange;
  Key key;
  std::size_t open = 0;        // messages that are not yet sent or received
  std::vector<bool> received;  // by rank
  Clock::time_point begun;
};

struct PeerState {
  SocketPeer peer;
  std::deque<Outgoing> queue;
  std::size_t written = 0;  // bytes of the first message in the queue
  std::array<std::byte, sizeof(RankHeader)> header{};
  std::size_t header_read = 0;
  std::optional<RankHeader> message;  // whose payload is being read
  std::shared_ptr<Posted> target;     // null while nobody has begun the exchange
  std::string reason;
  std::size_t payload_read = 0;
  Clock::time_point heard = Clock::now(), spoken = Clock::now();
  std::int64_t step = 0;
  std::string in_exchange;
  bool said_goodbye = false, closed = false;
};

class SocketRanks final : public base::Communicator {
 public:
  SocketRanks(int rank, std::vector<SocketPeer> peers, const SocketRankOptions& options)
      : rank_(rank), options_(options), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    require(wake_ >= 0, ErrorKind::over_budget, "the system gives no eventfd for the exchanges between ranks: {}",
            std::strerror(errno));
    for (SocketPeer& peer : peers) {
      if (peer.descriptor >= 0) fcntl(peer.descriptor, F_SETFL, fcntl(peer.descriptor, F_GETFL) | O_NONBLOCK);
      peers_.emplace_back();
      peers_.back().peer = std::move(peer);
    }
    thread_ = base::start_worker_thread([this] { loop(); });
  }

  ~SocketRanks() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      for (std::size_t i = 0; i < peers_.size(); ++i) {
        if (!is_self(i)) queue_message(i, RankMessageKind::goodbye);
      }
    }
    wake();
    pthread_join(thread_, nullptr);
    for (PeerState& peer : peers_) {
      if (peer.peer.descriptor >= 0) close(peer.peer.descriptor);
    }
    close(wake_);
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }

  void begin(Exchange exchange) override {
    std::unique_lock lock(mutex_);
    if (error_) {
      const std::exception_ptr error = error_;
      lock.unlock();
      return exchange.then(error);
    }
    const auto posted = std::make_shared<Posted>();
    posted->key = {exchange.name, begun_[exchange.name]++};
    posted->exchange = std::move(exchange);
    posted->received.resize(peers_.size());
    posted->begun = Clock::now();
    newest_ = posted->key.first;
    const auto self = static_cast<std::size_t>(rank_);
    const std::span<const std::byte> own = posted->exchange.sends[self];
    if (!own.empty()) std::memcpy(posted->exchange.receives[self].data(), own.data(), own.size());
    posted->received[self] = true;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (is_self(i)) continue;
      posted->open += 2;  // what is sent and what is received
      Outgoing message{header_of(RankMessageKind::exchange), posted->exchange.sends[i], {}, posted};
      message.header.set_name(posted->key.first);
      message.header.number = posted->key.second;
      message.header.bytes = static_cast<std::int64_t>(message.payload.size());
      peers_[i].queue.push_back(std::move(message));
    }
    posted_[posted->key] = posted;
    lock.unlock();
    wake();
  }

  void stop(std::string_view reason) override {
    std::unique_lock lock(mutex_);
    if (!error_) {
      tell_of_failure(reason);
      set_error(fmt::format("this rank has stopped: {}", reason));
    }
    finish_failure(lock);
    lock.unlock();
    wake();
  }

  void set_step(std::int64_t step) override {
    const std::lock_guard lock(mutex_);
    step_ = step;
  }

 private:
  bool is_self(std::size_t i) const { return i == static_cast<std::size_t>(rank_); }

  void wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof one);
  }

  RankHeader header_of(RankMessageKind kind) const {
    RankHeader header;
    header.kind = kind;
    header.rank = static_cast<std::uint32_t>(rank_);
    header.step = step_;
    header.set_name(newest_);
    return header;
  }

  void queue_message(std::size_t i, RankMessageKind kind) {
    if (!peers_[i].closed) peers_[i].queue.push_back({header_of(kind), {}, {}, nullptr});
  }

  std::string name_of(std::size_t i) const {
    const PeerState& state = peers_[i];
    return fmt::format("rank {} (host {}, process {}, step {})", i, state.peer.host, state.peer.process, state.step);
  }

  // --- failures; all with the lock ---

  void set_error(const std::string& message) {
    if (!error_) error_ = std::make_exception_ptr(Error(ErrorKind::failed, message));
  }

  // Drops what was to be sent, except for the rest of a message that is under way, and says why this rank stops.
  void tell_of_failure(std::string_view reason) {
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (is_self(i) || peers_[i].closed) continue;
      // The rest of a message cannot be taken back, and its bytes will not be there: the connection ends instead.
      if (peers_[i].written > 0 && !peers_[i].queue.empty()) continue;
      peers_[i].queue.clear();
      Outgoing message{
          header_of(RankMessageKind::failed), {}, std::string(reason.substr(0, kMostReasonBytes)), nullptr};
      message.header.bytes = static_cast<std::int64_t>(message.reason.size());
      peers_[i].queue.push_back(std::move(message));
    }
  }

  // Fails everything that is not complete. The lock is released while callbacks run; the caller may not be one.
  void finish_failure(std::unique_lock<std::mutex>& lock) {
    std::map<Key, std::shared_ptr<Posted>> left = std::exchange(posted_, {});
    for (PeerState& peer : peers_) {
      peer.target = nullptr;
      if (peer.written > 0 && !peer.queue.empty() && peer.queue.front().exchange != nullptr) close_peer(peer);
      std::erase_if(peer.queue, [](const Outgoing& each) { return each.exchange != nullptr; });
    }
    if (!pthread_equal(pthread_self(), thread_)) called_.wait(lock, [&] { return !calls_back_; });
    const std::exception_ptr error = error_;
    lock.unlock();
    for (const auto& [key, posted] : left) posted->exchange.then(error);
    lock.lock();
  }

  static void close_peer(PeerState& peer) {
    if (!peer.closed) shutdown(peer.peer.descriptor, SHUT_RDWR);
    peer.closed = true;
    peer.queue.clear();
    peer.written = 0;
  }

  void fail_because(std::unique_lock<std::mutex>& lock, const std::string& message) {
    if (error_) return;
    tell_of_failure(message);
    set_error(message);
    finish_failure(lock);
  }

  // --- the thread ---

  void loop() {
    std::unique_lock lock(mutex_);
    Clock::time_point looked = Clock::now();
    std::optional<Clock::time_point> end;
    while (true) {
      if (ends_ && !end) end = Clock::now() + std::chrono::seconds(2);
      if (end && (all_sent() || Clock::now() > *end)) return;
      take_up_waiting(lock);
      std::vector<pollfd> polled{{wake_, POLLIN, 0}};
      std::vector<std::size_t> whose{0};
      for (std::size_t i = 0; i < peers_.size(); ++i) {
        PeerState& peer = peers_[i];
        if (is_self(i) || peer.closed) continue;
        short events = 0;
        if (!waits_for_exchange(peer)) events |= POLLIN;
        if (!peer.queue.empty()) events |= POLLOUT;
        if (events == 0) continue;  // a closed connection would be reported again and again
        polled.push_back({peer.peer.descriptor, events, 0});
        whose.push_back(i);
      }
      lock.unlock();
      poll(polled.data(), polled.size(), static_cast<int>(kHeartbeat.count() / 5));
      lock.lock();
      std::uint64_t ignored = 0;
      if ((polled[0].revents & POLLIN) != 0) [[maybe_unused]]
        const ssize_t got = read(wake_, &ignored, sizeof ignored);
      for (std::size_t k = 1; k < polled.size(); ++k) {
        if (peers_[whose[k]].closed) continue;
        if ((polled[k].revents & POLLOUT) != 0) send_some(lock, whose[k]);
        if ((polled[k].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && !peers_[whose[k]].closed)
          receive_some(lock, whose[k]);
      }
      if (Clock::now() - looked < kHeartbeat) continue;
      looked = Clock::now();
      look_at_time(lock);
    }
  }

  // Reads on where a payload waited for its exchange to begin.
  void take_up_waiting(std::unique_lock<std::mutex>& lock) {
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      PeerState& peer = peers_[i];
      if (is_self(i) || peer.closed || !waits_for_exchange(peer)) continue;
      if (posted_.contains({std::string(peer.message->name_text()), peer.message->number})) receive_some(lock, i);
    }
  }

  bool all_sent() const {
    for (const PeerState& peer : peers_) {
      if (!peer.closed && !peer.queue.empty()) return false;
    }
    return true;
  }

  // Whether the peer's next payload belongs to an exchange that this rank has not begun: its bytes wait in the socket.
  static bool waits_for_exchange(const PeerState& peer) {
    return peer.message && peer.message->kind == RankMessageKind::exchange && peer.target == nullptr;
  }

  void send_some(std::unique_lock<std::mutex>& lock, std::size_t i) {
    PeerState& peer = peers_[i];
    while (!peer.queue.empty()) {
      Outgoing& message = peer.queue.front();
      constexpr std::size_t kHeader = sizeof(RankHeader);
      const std::span<const std::byte> payload =
          message.exchange ? message.payload : std::as_bytes(std::span(message.reason));
      const std::size_t total = kHeader + payload.size();
      const std::byte* from = nullptr;
      std::size_t left = 0;
      if (peer.written < kHeader) {
        from = reinterpret_cast<const std::byte*>(&message.header) + peer.written;
        left = kHeader - peer.written;
      } else {
        from = payload.data() + (peer.written - kHeader);
        left = total - peer.written;
      }
      const ssize_t sent = send(peer.peer.descriptor, from, left, MSG_NOSIGNAL);
      if (sent < 0) {
        if (errno == EAGAIN || errno == EINTR) return;
        return lose(lock, i, std::strerror(errno));
      }
      peer.written += static_cast<std::size_t>(sent);
      peer.spoken = Clock::now();
      if (peer.written < total) continue;
      const std::shared_ptr<Posted> exchange = message.exchange;
      peer.queue.pop_front();
      peer.written = 0;
      if (exchange != nullptr) complete_one(lock, exchange);
      if (peer.closed) return;
    }
  }

  void lose(std::unique_lock<std::mutex>& lock, std::size_t i, const std::string& why) {
    PeerState& peer = peers_[i];
    const bool is_awaited = std::ranges::any_of(posted_, [&](const auto& each) { return !each.second->received[i]; });
    const bool expected = peer.said_goodbye && !is_awaited;
    const std::string name = name_of(i);
    close_peer(peer);
    if (!expected && !ends_)
      fail_because(lock, fmt::format("{} {}", name,
                                     peer.said_goodbye ? "has ended before this rank had all that it needs of it"
                                                       : "is gone: it ended without a word, as a process does that "
                                                         "is killed (" +
                                                             why + ")"));
  }

  void receive_some(std::unique_lock<std::mutex>& lock, std::size_t i) {
    PeerState& peer = peers_[i];
    while (!peer.closed) {
      std::byte* to = nullptr;
      std::size_t room = 0;
      if (!peer.message) {
        to = peer.header.data() + peer.header_read;
        room = peer.header.size() - peer.header_read;
      } else if (!find_target(lock, i, to, room)) {
        return;
      }
      if (room > 0) {
        const ssize_t got = recv(peer.peer.descriptor, to, room, 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (got <= 0) return lose(lock, i, got == 0 ? "the connection is closed" : std::strerror(errno));
        peer.heard = Clock::now();
        if (!peer.message) peer.header_read += static_cast<std::size_t>(got);
        else peer.payload_read += static_cast<std::size_t>(got);
      }
      if (!peer.message && peer.header_read == peer.header.size()) {
        if (!begin_message(lock, i)) return;
      }
      if (peer.message && static_cast<std::int64_t>(peer.payload_read) == peer.message->bytes) end_message(lock, i);
    }
  }

  bool begin_message(std::unique_lock<std::mutex>& lock, std::size_t i) {
    PeerState& peer = peers_[i];
    try {
      peer.message = read_rank_header(peer.header, static_cast<std::uint32_t>(i));
    } catch (const Error& error) {
      close_peer(peer);
      fail_because(lock, error.message());
      return false;
    }
    peer.header_read = peer.payload_read = 0;
    peer.step = peer.message->step;
    peer.in_exchange = peer.message->name_text();
    if (peer.message->kind == RankMessageKind::failed)
      peer.reason.assign(static_cast<std::size_t>(peer.message->bytes), '\0');
    return true;
  }

  // Where the payload goes. Returns false if the exchange has not been begun, or if the message cannot be its part.
  bool find_target(std::unique_lock<std::mutex>& lock, std::size_t i, std::byte*& to, std::size_t& room) {
    PeerState& peer = peers_[i];
    room = static_cast<std::size_t>(peer.message->bytes) - peer.payload_read;
    if (peer.message->kind != RankMessageKind::exchange) {
      to = reinterpret_cast<std::byte*>(peer.reason.data()) + peer.payload_read;
      return true;
    }
    if (peer.target == nullptr) {
      const auto found = posted_.find({std::string(peer.message->name_text()), peer.message->number});
      if (found == posted_.end()) return false;
      const std::size_t expected = found->second->exchange.receives[i].size();
      if (found->second->received[i] || static_cast<std::size_t>(peer.message->bytes) != expected) {
        const std::string message =
            found->second->received[i]
                ? fmt::format("{} sent its part of '{}' twice", name_of(i), found->first.first)
                : fmt::format("{} sent {} bytes for '{}', expected {}: do all ranks have the same configuration?",
                              name_of(i), peer.message->bytes, found->first.first, expected);
        fail_because(lock, message);
        return false;
      }
      peer.target = found->second;
    }
    to = peer.target->exchange.receives[i].data() + peer.payload_read;
    return true;
  }

  void end_message(std::unique_lock<std::mutex>& lock, std::size_t i) {
    PeerState& peer = peers_[i];
    if (peer.message->kind == RankMessageKind::exchange && peer.target == nullptr) {
      std::byte* to = nullptr;
      std::size_t room = 0;
      if (!find_target(lock, i, to, room)) return;
    }
    const RankMessageKind kind = peer.message->kind;
    peer.message.reset();
    const std::shared_ptr<Posted> target = std::exchange(peer.target, nullptr);
    if (kind == RankMessageKind::goodbye) peer.said_goodbye = true;
    if (kind == RankMessageKind::failed) {
      const std::string message = fmt::format("{} has stopped: {}", name_of(i), peer.reason);
      peer.said_goodbye = true;
      if (!error_) {
        // The reason is known to all ranks: this one need not repeat it.
        set_error(message);
        finish_failure(lock);
      }
      return;
    }
    if (target == nullptr) return;
    target->received[i] = true;
    complete_one(lock, target);
  }

  void complete_one(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Posted>& posted) {
    if (--posted->open > 0) return;
    if (posted_.erase(posted->key) == 0) return;  // it has failed
    calls_back_ = true;
    lock.unlock();
    posted->exchange.then(nullptr);
    lock.lock();
    calls_back_ = false;
    called_.notify_all();
  }

  void look_at_time(std::unique_lock<std::mutex>& lock) {
    const Clock::time_point now = Clock::now();
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (is_self(i) || peers_[i].closed) continue;
      if (peers_[i].queue.empty() && !error_ && !ends_) queue_message(i, RankMessageKind::alive);
    }
    if (error_ || ends_) return;
    const auto seconds = [](Clock::duration time) { return std::chrono::duration<double>(time).count(); };
    for (const auto& [key, posted] : posted_) {
      if (now - posted->begun < options_.timeout) continue;
      for (std::size_t i = 0; i < peers_.size(); ++i) {
        if (posted->received[i]) continue;
        const PeerState& peer = peers_[i];
        const bool silent = now - peer.heard >= options_.timeout && !waits_for_exchange(peer);
        return fail_because(
            lock, silent ? fmt::format("{} has not answered for {:.1f} s: its process is stopped, or its machine is "
                                       "gone",
                                       name_of(i), seconds(now - peer.heard))
                         : fmt::format("{} has not reached '{}' within {:.1f} s: it is in '{}'", name_of(i), key.first,
                                       seconds(now - posted->begun), peer.in_exchange));
      }
    }
  }

  const int rank_;
  const SocketRankOptions options_;
  const int wake_;  // eventfd
  pthread_t thread_{};

  std::mutex mutex_;
  std::condition_variable called_;
  std::deque<PeerState> peers_;  // a deque: peers do not move
  std::map<std::string, std::int64_t> begun_;
  std::map<Key, std::shared_ptr<Posted>> posted_;
  std::exception_ptr error_;
  std::string newest_;
  std::int64_t step_ = 0;
  bool calls_back_ = false, ends_ = false;
};

}  // namespace

std::shared_ptr<base::Communicator> make_socket_ranks(int rank, std::vector<SocketPeer> peers,
                                                      const SocketRankOptions& options) {
  return std::make_shared<SocketRanks>(rank, std::move(peers), options);
}

}  // namespace tessera::dist
