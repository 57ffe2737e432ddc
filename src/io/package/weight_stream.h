// Weights of an open package read in the background, in the order in which the first run needs them, so that its first
// layers compute while later weights are still on their way. Each piece is checked against its checksum before anybody
// is told that it is there.
//
// A piece is one constant or one packing of the file. What the first run reads is read by a thread of the stream's own
// once start() was called, group by group: waiters are woken at the end of each group. Every other piece is read by the
// thread that asks for it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "io/package/read_throttle.h"

namespace tessera::io {

// How the first run uses a piece.
enum class PieceUse : std::uint32_t {
  none = 0,   // not at all
  whole = 1,  // a step reads it all, so it waits for it
  parts = 2,  // a step reads a small part of it (rows of a table): it is read last, and only the end of the run waits
};

// The error of a wrong checksum has these words, by which it can be told from others of invalid models.
inline constexpr std::string_view kDamagedWeights = "bytes of the package's weights are damaged";

struct StreamedPiece {
  std::span<const std::byte> bytes;  // in memory that the file is mapped to
  std::uint64_t checksum = 0;        // XXH3, 64 bits
  PieceUse use = PieceUse::none;
  bool is_packing = false;
};

// Thread-safe.
class WeightStream {
 public:
  // `pieces`: those that the first run uses, in the order of use, then all others. `owner` keeps their bytes. Throws
  // Error(invalid_model) where two overlap.
  WeightStream(std::vector<StreamedPiece> pieces, std::shared_ptr<const void> owner);
  ~WeightStream();
  WeightStream(const WeightStream&) = delete;
  WeightStream& operator=(const WeightStream&) = delete;

  // Begins to read; further calls do nothing.
  void start();
  // Which pieces of the order arrive together: `ends` ascend, each the index behind a group's last piece; the last is
  // queued(). Those that have been read already stay as they are. Until this is called a group is about 2 MiB.
  void set_groups(std::vector<std::size_t> ends);
  // Limits what is read per second, as a slower disk would. For tests and measurements. 0: no limit.
  void set_rate(double bytes_per_second) { throttle_.set_rate(bytes_per_second); }
  // The limit, or else what was measured so far; 0 where nothing is known yet.
  double bytes_per_second() const;

  std::span<const StreamedPiece> pieces() const { return pieces_; }
  // How many of the pieces start() reads: the first ones.
  std::size_t queued() const { return queue_.size(); }
  // The pieces that share bytes with [data, data + bytes), by their indices.
  std::vector<std::size_t> find(const void* data, std::int64_t bytes) const;

  // Whether all queued pieces are there and sound.
  bool is_complete() const { return complete_.load(std::memory_order_acquire); }
  bool has(std::size_t piece) const { return states_[piece].load(std::memory_order_acquire) == State::sound; }
  // Waits until the piece is there, at most so long for one that is queued; returns whether it is. Throws Error:
  // invalid_model where its checksum differs, io where it cannot be read.
  bool wait_for(std::size_t piece, std::chrono::nanoseconds most);
  // Waits for everything of [data, data + bytes). Bytes outside all pieces are none of the stream's. Throws as above.
  void need(const void* data, std::int64_t bytes);
  // The same for all constants.
  void need_constants();

  struct Report {
    std::int64_t pieces = 0, bytes = 0, groups = 0;  // that the thread has read
    double seconds = 0;                              // from start() to the end of the last group
  };
  Report report() const;

 private:
  enum class State : std::uint8_t { absent, sound, damaged, unreadable };
  using Clock = std::chrono::steady_clock;

  void read_groups();
  State read(const StreamedPiece& piece);
  void publish(std::size_t piece, State state);
  [[noreturn]] void fail(std::size_t piece) const;

  std::vector<StreamedPiece> pieces_;
  std::shared_ptr<const void> owner_;
  std::vector<std::size_t> by_address_;  // indices of pieces
  std::vector<std::size_t> queue_;       // in the order of reading
  std::vector<std::size_t> places_;      // of pieces in the queue; SIZE_MAX: not in it
  std::unique_ptr<std::atomic<State>[]> states_;
  std::atomic<bool> complete_{false}, stops_{false};
  ReadThrottle throttle_;

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::size_t> group_ends_;
  std::size_t next_ = 0;  // of the queue: what has not been begun
  bool started_ = false, ended_ = false;
  Clock::time_point begin_, end_;
  Report report_;
  std::thread thread_;
};

}  // namespace tessera::io
