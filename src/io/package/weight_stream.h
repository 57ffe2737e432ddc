// Reads the weights of an open package in the background, in the order in which the first run needs them, so that its
// first layers compute while later weights are being read. A piece is checked against its checksum before waiters are
// told that it is there.
//
// A piece is one constant or one packing of the file. After start(), the stream's own thread reads the pieces that the
// first run uses, group by group: waiters are woken at the end of each group. Every other piece is read by the thread
// that asks for it.
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
#include "io/package/section_decoder.h"

namespace tessera::io {

// How the first run uses a piece.
enum class PieceUse : std::uint32_t {
  none = 0,   // not at all
  whole = 1,  // a step reads all of it and waits for it
  parts = 2,  // a step reads a small part of it (rows of a table): it is read last, and only the end of the run waits
};

// A phrase in the error for a wrong checksum that distinguishes it from other invalid_model errors.
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
  // `pieces`: those that the first run uses, in the order of use, then all others. `owner` keeps their bytes alive.
  // `decoder`, of a protected file, decodes pieces instead of reading them, and its authentication replaces their
  // checksums. Throws Error(invalid_model) where two pieces overlap.
  WeightStream(std::vector<StreamedPiece> pieces, std::shared_ptr<const void> owner,
               std::shared_ptr<const SectionDecoder> decoder = nullptr);
  ~WeightStream();
  WeightStream(const WeightStream&) = delete;
  WeightStream& operator=(const WeightStream&) = delete;

  // Starts reading; further calls do nothing.
  void start();
  // Sets the groups of pieces that arrive together: `ends` ascend, each the index behind a group's last piece; the last
  // is queued(). Pieces that have been read already are not affected. Until this is called a group is about 2 MiB.
  void set_groups(std::vector<std::size_t> ends);
  // Limits the bytes read per second, to imitate a slower disk in tests and measurements. 0: no limit.
  void set_rate(double bytes_per_second) { throttle_.set_rate(bytes_per_second); }
  // The limit, or else the rate measured so far; 0 while unknown.
  double bytes_per_second() const;

  std::span<const StreamedPiece> pieces() const { return pieces_; }
  // The number of pieces that start() reads: the first ones.
  std::size_t queued() const { return queue_.size(); }
  // Indices of the pieces that share bytes with [data, data + bytes).
  std::vector<std::size_t> find(const void* data, std::int64_t bytes) const;

  // Whether all queued pieces were read and have correct checksums.
  bool is_complete() const { return complete_.load(std::memory_order_acquire); }
  bool has(std::size_t piece) const { return states_[piece].load(std::memory_order_acquire) == State::sound; }
  // Waits until the piece has been read (for a queued piece at most `most`) and returns whether it has. Throws Error:
  // invalid_model for a wrong checksum, io where the piece cannot be read.
  bool wait_for(std::size_t piece, std::chrono::nanoseconds most);
  // Waits for all pieces in [data, data + bytes); bytes outside all pieces are ignored. Throws as above.
  void need(const void* data, std::int64_t bytes);
  // Waits for all constants.
  void need_constants();

  struct Report {
    std::int64_t pieces = 0, bytes = 0, groups = 0;  // read by the stream's thread
    double seconds = 0;                              // from start() to the end of the last group
  };
  Report report() const;

 private:
  enum class State : std::uint8_t { absent, sound, damaged, unreadable };
  using Clock = std::chrono::steady_clock;

  void read_groups();
  State read(const StreamedPiece& piece, bool in_parallel);
  State decode(const StreamedPiece& piece, bool in_parallel);
  void publish(std::size_t piece, State state);
  [[noreturn]] void fail(std::size_t piece) const;

  std::vector<StreamedPiece> pieces_;
  std::shared_ptr<const void> owner_;
  std::shared_ptr<const SectionDecoder> decoder_;
  std::vector<std::size_t> by_address_;  // indices of pieces
  std::vector<std::size_t> queue_;       // in the order of reading
  std::vector<std::size_t> places_;      // of pieces in the queue; SIZE_MAX: not in it
  std::unique_ptr<std::atomic<State>[]> states_;
  std::atomic<bool> complete_{false}, stops_{false};
  ReadThrottle throttle_;

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::size_t> group_ends_;
  std::size_t next_ = 0;  // index in the queue of the first piece that was not begun
  bool started_ = false, ended_ = false;
  Clock::time_point begin_, end_;
  Report report_;
  std::thread thread_;
};

}  // namespace tessera::io
