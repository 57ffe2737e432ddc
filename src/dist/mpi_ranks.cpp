// Length: one thread's loop over all messages, whose parts share the state of the peers.
//
// A rank sends another one a sequence of headers (rank_message.h) with one tag. The payload that a header
// announces follows with a tag of its own, which both sides count, so that payloads are received straight into the
// memory of their exchanges, in whichever order these begin.
#include "dist/mpi_ranks.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <list>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/threads/worker_thread.h"
#include "dist/mpi_plugin.h"
#include "dist/rank_message.h"

namespace tessera::dist {
namespace {

namespace fs = std::filesystem;
using MpiClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kMpiHeartbeat{500};
// MPI makes progress only while it is called. A thread that calls it without pause takes a core from the kernels.
constexpr std::chrono::microseconds kPauseWithWork{100}, kPauseWithoutWork{2000};
constexpr std::chrono::seconds kMostFarewell{1};  // for telling other ranks of a failure
constexpr int kHeaderTag = 0, kFirstPayloadTag = 1;

const TesseraMpiPlugin& load_plugin() {
  const char* const named = std::getenv("TESSERA_MPI_PLUGIN");
  std::vector<std::string> paths;
  if (named != nullptr) {
    paths.emplace_back(named);
  } else {
    std::error_code ignored;
    const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
    for (const fs::path& each : {folder / kTesseraMpiPluginFile, folder / "../lib" / kTesseraMpiPluginFile}) {
      if (fs::exists(each, ignored)) paths.push_back(each.string());
    }
    paths.emplace_back(kTesseraMpiPluginFile);
  }
  // Open MPI's own plug-ins need its symbols, therefore RTLD_GLOBAL.
  void* const library = ::dlopen(paths.front().c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  require(
      library != nullptr, ErrorKind::unsupported,
      "the ranks were started by mpirun or srun and need the MPI plug-in, which cannot be loaded ({}): install Open "
      "MPI (scripts/setup.sh --mpi) and build again, or name the plug-in by TESSERA_MPI_PLUGIN; on one machine, "
      "`tessera train --ranks N` needs no MPI",
      ::dlerror());
  const auto function = reinterpret_cast<TesseraMpiPluginFunction>(::dlsym(library, kTesseraMpiPluginName));
  const TesseraMpiPlugin* const plugin = function == nullptr ? nullptr : function(kTesseraMpiPluginVersion);
  require(plugin != nullptr && plugin->version == kTesseraMpiPluginVersion, ErrorKind::unsupported,
          "'{}' is not an MPI plug-in of this version of Tessera (interface {}): build it again", paths.front(),
          kTesseraMpiPluginVersion);
  return *plugin;
}

// An exchange that is not complete.
struct MpiPosted {
  base::Exchange exchange;
  std::pair<std::string, std::int64_t> key;  // its name and its number among those of that name
  std::size_t open = 0;                      // messages that are not yet sent or received
  std::vector<bool> announced, received;     // by rank
  MpiClock::time_point begun;
};

// A message that is under way, with the bytes that are not an exchange's.
struct Transfer {
  TesseraMpiRequest* request = nullptr;
  std::shared_ptr<MpiPosted> posted;  // null: a header or a reason
  std::size_t peer = 0;
  bool receives = false;
  RankHeader header;
  std::string reason;
};

struct Announced {
  RankHeader header;
  int tag = 0;
};

struct MpiPeer {
  std::string host = "unknown";
  std::int64_t process = 0, step = 0, sent = 0, announced = 0;  // payloads
  std::string in_exchange;
  std::array<std::byte, sizeof(RankHeader)> header{};
  TesseraMpiRequest* request = nullptr;  // that receives the header
  std::deque<Announced> waiting;         // payloads of exchanges that this rank has not begun
  MpiClock::time_point heard = MpiClock::now(), spoken = heard;
  bool said_goodbye = false;
};

class MpiRanks final : public base::Communicator {
 public:
  explicit MpiRanks(const MpiRankOptions& options) : options_(options), mpi_(load_plugin()) {
    int size = 0;
    check(mpi_.start(&rank_, &size, &most_tag_), "MPI does not start");
    peers_.resize(static_cast<std::size_t>(size));
    thread_ = base::start_worker_thread([this] { loop(); });
  }

  ~MpiRanks() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    pthread_join(thread_, nullptr);
    if (!error_ && mpi_.finish() != 0) mpi_.abort_at_exit(1);
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }

  void begin(base::Exchange exchange) override {
    std::unique_lock lock(mutex_);
    if (error_ || stopping_) {
      const std::exception_ptr error = error_ ? error_ : error_of(own_reason());
      lock.unlock();
      return exchange.then(error);
    }
    const auto posted = std::make_shared<MpiPosted>();
    posted->key = {exchange.name, begun_[exchange.name]++};
    posted->exchange = std::move(exchange);
    posted->announced.resize(peers_.size());
    posted->received.resize(peers_.size());
    posted->begun = MpiClock::now();
    newest_ = posted->key.first;
    queue_.push_back(posted);
    lock.unlock();
    changed_.notify_all();
  }

  void stop(std::string_view reason) override {
    std::unique_lock lock(mutex_);
    if (!stopping_) stopping_ = std::string(reason.substr(0, kMostReasonBytes));
    if (pthread_equal(pthread_self(), thread_)) {
      lock.unlock();
      return fail_because(own_reason(), *stopping_);
    }
    changed_.notify_all();
    changed_.wait(lock, [&] { return failed_; });
  }

  void set_step(std::int64_t step) override {
    const std::lock_guard lock(mutex_);
    step_ = step;
  }

 private:
  std::string own_reason() const { return fmt::format("this rank has stopped: {}", *stopping_); }
  static std::exception_ptr error_of(const std::string& message) {
    return std::make_exception_ptr(Error(ErrorKind::failed, message));
  }
  bool is_self(std::size_t i) const { return i == static_cast<std::size_t>(rank_); }

  std::string name_of(std::size_t i) const {
    const MpiPeer& peer = peers_[i];
    return fmt::format("rank {} (host {}, process {}, step {})", i, peer.host, peer.process, peer.step);
  }

  void check(int error, std::string_view what) const {
    if (error == 0) return;
    std::array<char, 512> text{};
    mpi_.describe(error, text.data(), text.size());
    fail(ErrorKind::failed, "{}: {}", what, text.data());
  }

  // --- the thread; only it calls MPI until it ends ---

  void loop() {
    try {
      for (std::size_t i = 0; i < peers_.size(); ++i) {
        if (is_self(i)) continue;
        receive_header(i);
        greet(i);
      }
      while (turn()) {
      }
    } catch (const std::exception& error) {
      fail_because(error.what(), error.what());
    }
    // Also if it fails before the end: nobody waits for an exchange that this thread no longer carries out.
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ends_; });
  }

  // Does what can be done without waiting, then pauses if that was nothing. Returns false at the end.
  bool turn() {
    std::deque<std::shared_ptr<MpiPosted>> begun;
    bool ends = false, stops = false;
    {
      std::unique_lock lock(mutex_);
      const bool has_work = !transfers_.empty() || !posted_.empty();
      if (!has_progress_)
        changed_.wait_for(lock, has_work ? kPauseWithWork : kPauseWithoutWork,
                          [&] { return !queue_.empty() || stopping_ || (ends_ && !has_said_goodbye_); });
      begun.swap(queue_);
      ends = ends_;
      stops = stopping_.has_value();
    }
    has_progress_ = !begun.empty();
    if (stops) {
      for (const auto& posted : begun) posted_[posted->key] = posted;
      fail_because(own_reason(), *stopping_);
    }
    if (failed_) return false;
    for (const auto& posted : begun) post(posted);
    for (std::size_t i = 0; i < peers_.size() && !failed_; ++i) {
      if (!is_self(i)) look_for_header(i);
    }
    if (!failed_) look_at_transfers();
    if (!failed_) look_at_time();
    if (failed_) return false;
    return !ends || !is_at_end();
  }

  // Says goodbye once. Returns true when all that this rank sent has left, and the others have said goodbye.
  bool is_at_end() {
    for (std::size_t i = 0; i < peers_.size() && !has_said_goodbye_; ++i) {
      if (!is_self(i)) send_header(i, header_of(RankMessageKind::goodbye));
    }
    has_said_goodbye_ = true;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (!is_self(i) && !peers_[i].said_goodbye) return false;
    }
    if (!transfers_.empty()) return false;
    for (MpiPeer& peer : peers_) {
      if (peer.request != nullptr) check(mpi_.take_back(std::exchange(peer.request, nullptr)), "MPI does not end");
    }
    return true;
  }

  RankHeader header_of(RankMessageKind kind) {
    const std::lock_guard lock(mutex_);
    RankHeader header;
    header.kind = kind;
    header.rank = static_cast<std::uint32_t>(rank_);
    header.step = step_;
    header.set_name(newest_);
    return header;
  }

  void greet(std::size_t i) {
    RankHeader header = header_of(RankMessageKind::greeting);
    std::array<char, 56> host{};
    ::gethostname(host.data(), host.size() - 1);
    header.set_name(host.data());
    header.number = size();
    header.step = ::getpid();
    send_header(i, header);
  }

  // The tag of a peer's payload with that number. One that is used again belongs to a later message.
  int payload_tag(std::int64_t number) const {
    return kFirstPayloadTag + static_cast<int>(number % (most_tag_ - kFirstPayloadTag + 1));
  }

  void send_bytes(std::list<Transfer>::iterator transfer, const void* bytes, std::size_t count, int tag) {
    check(mpi_.send(bytes, count, message_bytes(), static_cast<int>(transfer->peer), tag, &transfer->request),
          fmt::format("{} cannot be sent to", name_of(transfer->peer)));
    peers_[transfer->peer].spoken = MpiClock::now();
  }

  std::size_t message_bytes() const { return static_cast<std::size_t>(options_.most_message_bytes); }

  void send_header(std::size_t i, const RankHeader& header) {
    const auto added = transfers_.insert(transfers_.end(), {nullptr, nullptr, i, false, header, {}});
    try {
      // Headers are never divided: the receiver expects each whole.
      check(mpi_.send(&added->header, sizeof header, sizeof header, static_cast<int>(i), kHeaderTag, &added->request),
            fmt::format("{} cannot be sent to", name_of(i)));
    } catch (...) {
      transfers_.erase(added);
      throw;
    }
    peers_[i].spoken = MpiClock::now();
  }

  void receive_header(std::size_t i) {
    MpiPeer& peer = peers_[i];
    check(mpi_.receive(peer.header.data(), peer.header.size(), peer.header.size(), static_cast<int>(i), kHeaderTag,
                       &peer.request),
          fmt::format("{} cannot be received from", name_of(i)));
  }

  void post(const std::shared_ptr<MpiPosted>& posted) {
    const auto self = static_cast<std::size_t>(rank_);
    const std::span<const std::byte> own = posted->exchange.sends[self];
    if (!own.empty()) std::memcpy(posted->exchange.receives[self].data(), own.data(), own.size());
    posted->received[self] = posted->announced[self] = true;
    posted->open = 2 * (peers_.size() - 1);  // what is sent and what is received
    posted_[posted->key] = posted;
    if (posted->open == 0) return complete(posted);
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (is_self(i)) continue;
      const std::span<const std::byte> bytes = posted->exchange.sends[i];
      RankHeader header = header_of(RankMessageKind::exchange);
      header.set_name(posted->key.first);
      header.number = posted->key.second;
      header.bytes = static_cast<std::int64_t>(bytes.size());
      send_header(i, header);
      const auto added = transfers_.insert(transfers_.end(), {nullptr, posted, i, false, {}, {}});
      send_bytes(added, bytes.data(), bytes.size(), payload_tag(peers_[i].sent++));
    }
    for (std::size_t i = 0; i < peers_.size() && !failed_; ++i) {
      std::deque<Announced>& waiting = peers_[i].waiting;
      const auto found = std::ranges::find_if(waiting, [&](const Announced& each) {
        return each.header.name_text() == posted->key.first && each.header.number == posted->key.second;
      });
      if (found == waiting.end()) continue;
      const Announced announced = *found;
      waiting.erase(found);
      receive_payload(i, announced, posted);
    }
  }

  void look_for_header(std::size_t i) {
    MpiPeer& peer = peers_[i];
    int complete = 0;
    check(mpi_.test(peer.request, &complete), name_of(i));
    if (complete == 0) return;
    peer.request = nullptr;
    peer.heard = MpiClock::now();
    has_progress_ = true;
    const RankHeader header = read_rank_header(peer.header, static_cast<std::uint32_t>(i));
    receive_header(i);
    if (header.kind == RankMessageKind::greeting) {
      peer.host = header.name_text();
      peer.process = header.step;
      return;
    }
    peer.step = header.step;
    peer.in_exchange = header.name_text();
    if (header.kind == RankMessageKind::goodbye) peer.said_goodbye = true;
    if (header.kind != RankMessageKind::exchange && header.kind != RankMessageKind::failed) return;
    const Announced announced{header, payload_tag(peer.announced++)};
    if (header.kind == RankMessageKind::failed) {
      const auto added = transfers_.insert(transfers_.end(), {nullptr, nullptr, i, true, header, {}});
      added->reason.assign(static_cast<std::size_t>(header.bytes), '\0');
      check(mpi_.receive(added->reason.data(), added->reason.size(), message_bytes(), static_cast<int>(i),
                         announced.tag, &added->request),
            name_of(i));
      return;
    }
    const auto found = posted_.find({std::string(header.name_text()), header.number});
    if (found == posted_.end()) peer.waiting.push_back(announced);
    else receive_payload(i, announced, found->second);
  }

  void receive_payload(std::size_t i, const Announced& announced, const std::shared_ptr<MpiPosted>& posted) {
    const std::span<std::byte> to = posted->exchange.receives[i];
    require(!posted->announced[i], ErrorKind::failed, "{} sent its part of '{}' twice", name_of(i), posted->key.first);
    require(static_cast<std::size_t>(announced.header.bytes) == to.size(), ErrorKind::failed,
            "{} sent {} bytes for '{}', expected {}: do all ranks have the same configuration?", name_of(i),
            announced.header.bytes, posted->key.first, to.size());
    posted->announced[i] = true;
    const auto added = transfers_.insert(transfers_.end(), {nullptr, posted, i, true, {}, {}});
    check(mpi_.receive(to.data(), to.size(), message_bytes(), static_cast<int>(i), announced.tag, &added->request),
          name_of(i));
  }

  void look_at_transfers() {
    for (auto each = transfers_.begin(); each != transfers_.end() && !failed_;) {
      int complete_now = 0;
      check(mpi_.test(each->request, &complete_now), name_of(each->peer));
      if (complete_now == 0) {
        ++each;
        continue;
      }
      has_progress_ = true;
      const Transfer done = std::move(*each);
      each = transfers_.erase(each);
      if (done.receives) peers_[done.peer].heard = MpiClock::now();
      if (done.posted == nullptr && done.receives)
        return fail_because(fmt::format("{} has stopped: {}", name_of(done.peer), done.reason), "");
      if (done.posted == nullptr) continue;
      if (done.receives) done.posted->received[done.peer] = true;
      if (--done.posted->open == 0) complete(done.posted);
    }
  }

  void complete(const std::shared_ptr<MpiPosted>& posted) {
    posted_.erase(posted->key);
    posted->exchange.then(nullptr);
  }

  void look_at_time() {
    const MpiClock::time_point now = MpiClock::now();
    if (now - looked_ < kMpiHeartbeat / 2) return;
    looked_ = now;
    const auto seconds = [](MpiClock::duration time) { return std::chrono::duration<double>(time).count(); };
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (is_self(i)) continue;
      const MpiPeer& peer = peers_[i];
      if (now - peer.spoken >= kMpiHeartbeat && !has_said_goodbye_) send_header(i, header_of(RankMessageKind::alive));
      require(!has_said_goodbye_ || peer.said_goodbye || now - peer.heard < options_.timeout, ErrorKind::failed,
              "{} has not answered for {:.1f} s at the end of the training", name_of(i), seconds(now - peer.heard));
    }
    for (const auto& [key, posted] : posted_) {
      for (std::size_t i = 0; i < peers_.size(); ++i) {
        if (posted->received[i]) continue;
        const MpiPeer& peer = peers_[i];
        require(!peer.said_goodbye || posted->announced[i], ErrorKind::failed,
                "{} has ended before this rank had all that it needs of it", name_of(i));
        if (now - posted->begun < options_.timeout) continue;
        require(now - peer.heard < options_.timeout, ErrorKind::failed,
                "{} has not answered for {:.1f} s: its process is stopped, or its machine is gone", name_of(i),
                seconds(now - peer.heard));
        fail(ErrorKind::failed, "{} has not reached '{}' within {:.1f} s: it is in '{}'", name_of(i), key.first,
             seconds(now - posted->begun), peer.in_exchange);
      }
    }
  }

  // Fails everything that is not complete, after telling other ranks why unless `reason` is empty. MPI could still
  // write into the memory of exchanges whenever it is called, so that after this it is not, but for MPI_Abort when the
  // process exits. Until then, exchanges whose messages are under way, and what their callbacks own, are kept.
  void fail_because(const std::string& message, const std::string& reason) {
    if (std::exchange(failing_, true)) return;
    if (!reason.empty()) {
      try {
        tell_of_failure(reason);
      } catch (const std::exception&) {
        // MPI fails, and this rank says why it ended.
      }
    }
    mpi_.abort_at_exit(1);
    const std::exception_ptr error = error_of(message);
    {
      const std::lock_guard lock(mutex_);
      error_ = error;
      for (const auto& posted : queue_) posted_[posted->key] = posted;
      queue_.clear();
    }
    for (const auto& [key, posted] : posted_) posted->exchange.then(error);
    {
      const std::lock_guard lock(mutex_);
      failed_ = true;
    }
    changed_.notify_all();
  }

  void tell_of_failure(const std::string& reason) {
    std::vector<TesseraMpiRequest*> sent;
    const std::string text = reason.substr(0, kMostReasonBytes);
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (is_self(i)) continue;
      RankHeader header = header_of(RankMessageKind::failed);
      header.bytes = static_cast<std::int64_t>(text.size());
      send_header(i, header);
      const auto added = transfers_.insert(transfers_.end(), {nullptr, nullptr, i, false, {}, text});
      send_bytes(added, added->reason.data(), added->reason.size(), payload_tag(peers_[i].sent++));
      sent.push_back(added->request);
    }
    const MpiClock::time_point end = MpiClock::now() + kMostFarewell;
    while (!sent.empty() && MpiClock::now() < end) {
      for (std::size_t k = sent.size(); k-- > 0;) {
        int complete = 0;
        check(mpi_.test(sent[k], &complete), "a reason cannot be sent");
        if (complete != 0) sent.erase(sent.begin() + static_cast<std::ptrdiff_t>(k));
      }
      ::usleep(100);
    }
  }

  const MpiRankOptions options_;
  const TesseraMpiPlugin& mpi_;
  int rank_ = 0, most_tag_ = 0;
  pthread_t thread_{};

  // Used by the thread alone, but for the number of peers.
  std::vector<MpiPeer> peers_;
  std::list<Transfer> transfers_;  // a list: transfers do not move
  std::map<std::pair<std::string, std::int64_t>, std::shared_ptr<MpiPosted>> posted_;
  MpiClock::time_point looked_ = MpiClock::now();
  bool has_progress_ = false, has_said_goodbye_ = false, failing_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<MpiPosted>> queue_;  // exchanges that the thread has not yet begun
  std::map<std::string, std::int64_t> begun_;
  std::exception_ptr error_;
  std::optional<std::string> stopping_;
  std::string newest_;
  std::int64_t step_ = 0;
  bool failed_ = false, ends_ = false;
};

}  // namespace

std::shared_ptr<base::Communicator> make_mpi_ranks(const MpiRankOptions& options) {
  return std::make_shared<MpiRanks>(options);
}

}  // namespace tessera::dist
