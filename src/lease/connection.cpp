// Attaches a process to a daemon, notices when the daemon has gone, and requests memory from it.
#include "lease/connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "base/numbers/units.h"
#include "lease/trusted_daemon.h"

namespace tessera::lease {
namespace {

constexpr int kRetryMs = 200;
// Memory is requested and given back in large pieces, so that few runs have to make a request.
constexpr std::int64_t kPieceBytes = std::int64_t{16} << 20, kMostSpareBytes = 4 * kPieceBytes;

}  // namespace

Attachment::Connection::~Connection() {
  close(kick);
}

// Watches the connection, and makes a new one when it is lost.
void Attachment::keep_attached() {
  while (true) {
    const Connection* const connection = connection_.load();
    const int socket = connection != nullptr ? connection->socket.descriptor() : -1;
    pollfd watched[2] = {{stop_, POLLIN, 0}, {socket, POLLRDHUP, 0}};
    if (poll(watched, connection != nullptr ? 2 : 1, connection != nullptr ? -1 : kRetryMs) < 0 && errno != EINTR)
      return;
    if (watched[0].revents != 0) break;
    if (connection == nullptr) {
      try_attach();
    } else if (watched[1].revents != 0 || connection != connection_.load()) {
      detach(connection);
      const std::lock_guard lock(exchange_mutex_);
      connections_.back()->socket.reset();
    }
  }
  detach(connection_.load());
}

bool Attachment::try_attach() {
  DaemonConnection found = connect_to_daemon(job_.socket, job_.trusted);
  if (found.failure == DaemonConnection::Failure::no_daemon) return false;
  if (!found.socket.is_open()) {
    if (found.why != refusal_) warn("this process runs alone: {}", found.why);
    refusal_ = found.why;
    return false;
  }
  Socket socket = std::move(found.socket);
  Request request{.kind = LeaseMessageKind::attach,
                  .priority = static_cast<std::uint32_t>(job_.priority),
                  .weight = job_.weight,
                  .goal_ns = job_.goal_ns,
                  .bytes = job_.memory_bytes};
  request.text.set(job_.name);
  Reply reply;
  std::vector<int> descriptors;
  errno = 0;
  const bool answered = send_packet(socket.descriptor(), &request, sizeof(request)) &&
                        receive_packet(socket.descriptor(), &reply, sizeof(reply), &descriptors) == sizeof(reply) &&
                        reply.magic == kMagic && reply.version == kVersion;
  const bool complete = descriptors.size() == 2 && reply.slot >= 0 && reply.slot < kMostJobs;
  if (!answered || reply.granted == 0 || !complete) {
    for (const int descriptor : descriptors) close(descriptor);
    const std::string why = answered ? reply.text.str() : "it closed the connection, as for users it does not know";
    if (!answered && errno == EAGAIN) return false;  // the daemon does not respond
    if (why != refusal_)
      warn("the sharing daemon at '{}' refuses this process, which runs alone: {}", job_.socket, why);
    refusal_ = why;
    return false;
  }
  try {
    auto board = std::make_unique<SharedBoard>(descriptors[0]);
    auto connection = std::make_unique<Connection>(std::move(socket), std::move(board), descriptors[1], reply.slot);
    const std::lock_guard lock(mutex_);
    credit_bytes_ = 0;
    BoardSlot& slot = *connection->slot;
    connections_.push_back(std::move(connection));
    activity_ = Activity::idle;
    if (!arrivals_.empty()) {
      slot.arrival_ns = arrivals_.front();
      slot.runs_begun += arrivals_.size();
    }
    connection_ = connections_.back().get();
    settle();
  } catch (const Error& error) {
    if (error.message() != refusal_)
      warn("cannot attach to the sharing daemon at '{}': {}", job_.socket, error.message());
    refusal_ = error.message();
    return false;
  }
  refusal_.clear();
  return true;
}

// Detaches from the daemon. The process goes on alone.
void Attachment::detach(const Connection* lost) {
  if (lost == nullptr) return;
  const std::scoped_lock locks(exchange_mutex_, mutex_);
  if (connection_.load() != lost) return;
  connection_ = nullptr;
  for (const auto& connection : connections_) {
    if (connection.get() != lost) continue;
    shutdown(connection->socket.descriptor(), SHUT_RDWR);  // wakes the keeper, if another thread noticed the loss
    wake(*connection->slot);
  }
}

// Sends a request and receives its reply. Returns false if the daemon does not answer.
bool Attachment::exchange(const Request& request, Reply& reply, std::vector<int>* descriptors) {
  const Connection* const connection = connection_.load();
  if (connection == nullptr) return false;
  const int socket = connection->socket.descriptor();
  if (!send_packet(socket, &request, sizeof(request))) return false;
  if (receive_packet(socket, &reply, sizeof(reply), descriptors) == sizeof(reply) && reply.magic == kMagic) return true;
  shutdown(socket, SHUT_RDWR);  // a late reply would be taken for the reply to the next request
  return false;
}

void Attachment::charge(std::int64_t bytes, std::string_view what) {
  const std::int64_t used = used_bytes_.fetch_add(bytes) + bytes;
  if (used <= credit_bytes_.load(std::memory_order_relaxed) || !is_attached()) return;
  const std::lock_guard lock(exchange_mutex_);
  const std::int64_t needed = used_bytes_.load() - credit_bytes_.load();
  if (needed <= 0) return;
  Request request{.kind = LeaseMessageKind::charge, .bytes = (needed + kPieceBytes - 1) / kPieceBytes * kPieceBytes};
  request.text.set(what);
  Reply reply;
  bool answered = exchange(request, reply);
  if (answered && reply.granted == 0 && request.bytes > needed) {
    request.bytes = needed;
    answered = exchange(request, reply);
  }
  if (!answered) return;  // the process is alone, and nothing is limited
  if (reply.granted == 0) {
    used_bytes_ -= bytes;
    fail(ErrorKind::over_budget, "{}", reply.text.str());
  }
  credit_bytes_ += request.bytes;
}

void Attachment::release(std::int64_t bytes) {
  const std::int64_t used = used_bytes_.fetch_sub(bytes) - bytes;
  if (credit_bytes_.load(std::memory_order_relaxed) - used > kMostSpareBytes) give_memory_back();
}

void Attachment::give_memory_back() {
  const std::lock_guard lock(exchange_mutex_);
  const std::int64_t spare = credit_bytes_.load() - used_bytes_.load() - kPieceBytes;
  const Connection* const connection = connection_.load();
  if (spare <= 0 || connection == nullptr) return;
  const Request request{.kind = LeaseMessageKind::release, .bytes = spare};
  if (send_packet(connection->socket.descriptor(), &request, sizeof(request))) credit_bytes_ -= spare;
}

bool Attachment::lends() const {
  const Connection* const connection = connection_.load(std::memory_order_acquire);
  return job_.priority == Priority::background && connection != nullptr &&
         (*connection->board)->has_memory_limit.load(std::memory_order_relaxed) != 0;
}

std::int64_t Attachment::wanted_bytes() const noexcept {
  const Connection* const connection = connection_.load(std::memory_order_acquire);
  return connection != nullptr ? connection->slot->wanted_bytes.load(std::memory_order_relaxed) : 0;
}

void Attachment::count_spill() noexcept {
  const Connection* const connection = connection_.load(std::memory_order_acquire);
  if (connection != nullptr) ++connection->slot->spills;
}

bool Attachment::borrow(std::int64_t bytes, std::int64_t quiet_ns) {
  const std::lock_guard lock(exchange_mutex_);
  const Connection* const connection = connection_.load();
  const Request request{.kind = LeaseMessageKind::borrow, .quiet_ns = quiet_ns, .bytes = bytes};
  Reply reply;
  if (!exchange(request, reply)) return true;  // the process is alone, and nothing is limited
  if (reply.granted == 0) {
    const std::string why = reply.text.str();
    require(why.empty(), ErrorKind::over_budget, "{}", why);
    return false;
  }
  if (lender_ != connection) borrowed_bytes_ = 0;
  lender_ = connection;
  borrowed_bytes_ += bytes;
  return true;
}

void Attachment::give_back(std::int64_t bytes) noexcept {
  const std::lock_guard lock(exchange_mutex_);
  const Connection* const connection = connection_.load();
  if (connection == nullptr || connection != lender_) return;  // the daemon that lent the memory has gone
  const Request request{.kind = LeaseMessageKind::give_back, .bytes = std::min(bytes, borrowed_bytes_)};
  borrowed_bytes_ -= request.bytes;
  if (request.bytes > 0) send_packet(connection->socket.descriptor(), &request, sizeof(request));
}

}  // namespace tessera::lease
