#include "io/package/weight_stream.h"

#include <sys/mman.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <numeric>

#include "base/error.h"

namespace tessera::io {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 20;  // read, then summed while it is in a cache
constexpr std::size_t kDecodedBlock = std::size_t{4} << 20;
constexpr std::size_t kFirstGroups = std::size_t{2} << 20;
constexpr std::uintptr_t kPage = 4096;
// The least number of bytes for a meaningful rate.
constexpr std::int64_t kLeastMeasured = std::int64_t{4} << 20;

// Advises on the whole pages that hold any of the bytes. Returns 0 or an error number.
int advise(std::span<const std::byte> bytes, int advice) {
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t begin = address / kPage * kPage, end = (address + bytes.size() + kPage - 1) / kPage * kPage;
  return ::madvise(reinterpret_cast<void*>(begin), end - begin, advice) == 0 ? 0 : errno;
}

// Brings the bytes into memory, so that a fault of the disk or a file that was truncated is an error and not a signal.
// Systems without that advice read the bytes when they are summed.
bool populate(std::span<const std::byte> bytes) {
  const int error = advise(bytes, MADV_POPULATE_READ);
  return error == 0 || error == EINVAL || error == ENOSYS;
}

}  // namespace

WeightStream::WeightStream(std::vector<StreamedPiece> pieces, std::shared_ptr<const void> owner,
                           std::shared_ptr<const SectionDecoder> decoder)
    : pieces_(std::move(pieces)),
      owner_(std::move(owner)),
      decoder_(std::move(decoder)),
      by_address_(pieces_.size()),
      places_(pieces_.size(), SIZE_MAX),
      states_(std::make_unique<std::atomic<State>[]>(pieces_.size())) {
  std::iota(by_address_.begin(), by_address_.end(), std::size_t{0});
  std::ranges::sort(by_address_, {}, [&](std::size_t i) { return pieces_[i].bytes.data(); });
  for (std::size_t i = 1; i < by_address_.size(); ++i) {
    const std::span<const std::byte> before = pieces_[by_address_[i - 1]].bytes;
    require(before.data() + before.size() <= pieces_[by_address_[i]].bytes.data(), ErrorKind::invalid_model,
            "two pieces of weights overlap");
  }
  for (const PieceUse use : {PieceUse::whole, PieceUse::parts}) {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if (pieces_[i].use != use) continue;
      places_[i] = queue_.size();
      queue_.push_back(i);
    }
  }
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    bytes += pieces_[queue_[i]].bytes.size();
    if (bytes < kFirstGroups && i + 1 < queue_.size()) continue;
    group_ends_.push_back(i + 1);
    bytes = 0;
  }
  complete_ = queue_.empty();
  // Reading a row of a table must not bring in megabytes around it.
  for (const StreamedPiece& piece : pieces_) {
    if (piece.use == PieceUse::parts) advise(piece.bytes, MADV_RANDOM);
  }
}

WeightStream::~WeightStream() {
  stops_ = true;
  if (thread_.joinable()) thread_.join();
}

void WeightStream::start() {
  const std::lock_guard lock(mutex_);
  if (started_ || queue_.empty()) return;
  started_ = true;
  begin_ = end_ = Clock::now();
  thread_ = std::thread([this] { read_groups(); });
}

void WeightStream::set_groups(std::vector<std::size_t> ends) {
  const std::lock_guard lock(mutex_);
  group_ends_ = std::move(ends);
}

double WeightStream::bytes_per_second() const {
  if (const double limit = throttle_.rate(); limit > 0) return limit;
  const Report so_far = report();
  return so_far.bytes >= kLeastMeasured && so_far.seconds > 0 ? static_cast<double>(so_far.bytes) / so_far.seconds : 0;
}

std::vector<std::size_t> WeightStream::find(const void* data, std::int64_t bytes) const {
  std::vector<std::size_t> found;
  const auto* begin = static_cast<const std::byte*>(data);
  const auto end_of = [&](std::size_t i) { return pieces_[i].bytes.data() + pieces_[i].bytes.size(); };
  for (auto at = std::ranges::upper_bound(by_address_, begin, {}, end_of);
       at != by_address_.end() && pieces_[*at].bytes.data() < begin + bytes; ++at)
    found.push_back(*at);
  return found;
}

void WeightStream::read_groups() {
  std::unique_lock lock(mutex_);
  while (next_ < queue_.size() && !stops_) {
    const auto end = std::ranges::upper_bound(group_ends_, next_);
    const std::size_t first = next_, last = end != group_ends_.end() ? std::min(*end, queue_.size()) : queue_.size();
    next_ = last;
    lock.unlock();
    std::vector<State> states;
    for (std::size_t i = first; i < last && !stops_; ++i) states.push_back(read(pieces_[queue_[i]], true));
    lock.lock();
    for (std::size_t i = 0; i < states.size(); ++i) {
      states_[queue_[first + i]].store(states[i], std::memory_order_release);
      ++report_.pieces;
      report_.bytes += static_cast<std::int64_t>(pieces_[queue_[first + i]].bytes.size());
    }
    ++report_.groups;
    end_ = Clock::now();
    arrived_.notify_all();
  }
  ended_ = true;
  if (std::ranges::all_of(queue_, [&](std::size_t piece) { return has(piece); }))
    complete_.store(true, std::memory_order_release);
  arrived_.notify_all();
}

WeightStream::State WeightStream::decode(const StreamedPiece& piece, bool in_parallel) {
  try {
    for (std::size_t begin = 0; begin < piece.bytes.size() && !stops_; begin += kDecodedBlock) {
      const std::size_t size = std::min(kDecodedBlock, piece.bytes.size() - begin);
      throttle_.take(static_cast<std::int64_t>(size));
      decoder_->need(piece.bytes.subspan(begin, size), in_parallel);
    }
  } catch (const Error& error) {
    return error.kind() == ErrorKind::io ? State::unreadable : State::damaged;
  }
  return State::sound;
}

WeightStream::State WeightStream::read(const StreamedPiece& piece, bool in_parallel) {
  if (decoder_ != nullptr) return decode(piece, in_parallel);
  if (piece.use == PieceUse::parts) advise(piece.bytes, MADV_NORMAL);
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> sum(XXH3_createState(), XXH3_freeState);
  if (sum == nullptr) return State::unreadable;
  XXH3_64bits_reset(sum.get());
  for (std::size_t begin = 0; begin < piece.bytes.size() && !stops_; begin += kBlock) {
    const std::span<const std::byte> block = piece.bytes.subspan(begin, std::min(kBlock, piece.bytes.size() - begin));
    throttle_.take(static_cast<std::int64_t>(block.size()));
    if (!populate(block)) return State::unreadable;
    XXH3_64bits_update(sum.get(), block.data(), block.size());
  }
  return XXH3_64bits_digest(sum.get()) == piece.checksum ? State::sound : State::damaged;
}

void WeightStream::publish(std::size_t piece, State state) {
  {
    const std::lock_guard lock(mutex_);
    states_[piece].store(state, std::memory_order_release);
  }
  arrived_.notify_all();
}

void WeightStream::fail(std::size_t piece) const {
  const StreamedPiece& which = pieces_[piece];
  if (states_[piece] == State::unreadable)
    throw Error(ErrorKind::io, fmt::format("{} bytes of the package's weights cannot be read: the file has become "
                                           "shorter or its disk fails",
                                           which.bytes.size()));
  if (decoder_ != nullptr)
    throw Error(
        ErrorKind::invalid_model,
        fmt::format("{} {}: they do not authenticate under the file's key; get the file again from its publisher",
                    which.bytes.size(), kDamagedWeights));
  throw Error(ErrorKind::invalid_model,
              fmt::format("{} {}: their checksum differs; write the package again from its .onnx", which.bytes.size(),
                          kDamagedWeights));
}

bool WeightStream::wait_for(std::size_t piece, std::chrono::nanoseconds most) {
  if (has(piece)) return true;
  bool reads = false;
  {
    std::unique_lock lock(mutex_);
    reads = !started_ || places_[piece] == SIZE_MAX;
    if (!reads) arrived_.wait_for(lock, most, [&] { return states_[piece] != State::absent || ended_; });
  }
  if (reads && states_[piece] == State::absent)
    publish(piece, read(pieces_[piece], false));  // a run's thread, which may be held up in a parallel loop
  if (has(piece)) return true;
  if (states_[piece] == State::absent) return false;
  fail(piece);
}

void WeightStream::need(const void* data, std::int64_t bytes) {
  for (const std::size_t piece : find(data, bytes)) {
    while (!wait_for(piece, std::chrono::seconds(1))) {
    }
  }
}

void WeightStream::need_constants() {
  for (const StreamedPiece& piece : pieces_) {
    if (!piece.is_packing) need(piece.bytes.data(), static_cast<std::int64_t>(piece.bytes.size()));
  }
}

WeightStream::Report WeightStream::report() const {
  const std::lock_guard lock(mutex_);
  Report report = report_;
  report.seconds = std::chrono::duration<double>(end_ - begin_).count();
  return report;
}

}  // namespace tessera::io
