#include "runtime/memory/run_arenas.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/memory/spill_file.h"

namespace tessera::runtime {
namespace {

// So much is written, and its pages freed, before others are told: they may begin before all of it is away.
constexpr std::int64_t kPieceBytes = std::int64_t{8} << 20;

// Gives the whole pages of the range back to the system; they read as zeros until they are written to.
void free_pages(std::byte* begin, std::byte* end) {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t first = (reinterpret_cast<std::uintptr_t>(begin) + page - 1) / page * page;
  const std::uintptr_t last = reinterpret_cast<std::uintptr_t>(end) / page * page;
  if (last > first) ::madvise(begin + (first - reinterpret_cast<std::uintptr_t>(begin)), last - first, MADV_DONTNEED);
}

// Calls `body(begin, end)` for the parts of the ranges between `begin` and `end`.
template <typename Body>
void for_each_part(const std::vector<plan::ByteRange>& ranges, std::int64_t begin, std::int64_t end, const Body& body) {
  for (const plan::ByteRange& range : ranges) {
    const std::int64_t from = std::max(range.begin, begin), to = std::min(range.end, end);
    if (from < to) body(from, to);
  }
}

}  // namespace

template <typename Body>
void RunArenas::for_each_piece(const Body& body) const {
  for (std::size_t i = 0; i < arenas_.size(); ++i) {
    for (std::int64_t begin = 0; begin < arenas_[i].bytes; begin += kPieceBytes)
      body(i, begin, std::min(begin + kPieceBytes, arenas_[i].bytes));
  }
}

void RunArenas::take(RunControl& control, std::int64_t bytes) {
  const bool holds_more = !arenas_.empty();
  if (!memory_.try_take(bytes, holds_more)) {
    const WithoutCore without_core(control);
    if (holds_more) spill_and_return(control, whole_arenas(), bytes);
    else wait_for(control, bytes);
  }
  arenas_.push_back({nullptr, bytes});
}

void RunArenas::drop() noexcept {
  if (!away_) memory_.give_back(arenas_.back().bytes);
  arenas_.pop_back();
}

void RunArenas::give_way(RunControl& control, const plan::Plan& plan, std::size_t step) {
  if (memory_.wanted_bytes() == 0 || arenas_.empty()) return;
  const WithoutCore without_core(control);
  // The whole arenas of the graphs around this one count as live: the step that runs this graph may be in the middle of
  // anything.
  std::vector<Ranges> live = whole_arenas();
  if (plan.arena_bytes > 0) live.back() = plan::live_ranges(plan, step);
  spill_and_return(control, live, 0);
}

std::vector<RunArenas::Ranges> RunArenas::whole_arenas() const {
  std::vector<Ranges> whole;
  for (const Arena& arena : arenas_) whole.push_back({{0, arena.bytes}});
  return whole;
}

void RunArenas::wait_for(RunControl& control, std::int64_t bytes) {
  while (!memory_.try_take(bytes, false)) {
    memory_.wait();
    control.resources.check_stop();
  }
}

void RunArenas::spill_and_return(RunControl& control, const std::vector<Ranges>& live, std::int64_t more_bytes) {
  const std::int64_t start_ns = control.clock->now_ns();
  SpillFile file(memory_.spill_folder());
  std::int64_t held_bytes = 0;
  for (const Arena& arena : arenas_) held_bytes += arena.bytes;
  const std::int64_t all_bytes = held_bytes + more_bytes;
  away_ = true;
  try {
    for_each_piece([&](std::size_t arena, std::int64_t begin, std::int64_t end) {
      std::byte* const data = arenas_[arena].data;
      for_each_part(live[arena], begin, end, [&](auto from, auto to) { file.write(data + from, to - from); });
      free_pages(data + begin, data + end);
      memory_.give_back(end - begin);
      held_bytes -= end - begin;
    });
    memory_.spilled(file.bytes(), control.clock->now_ns() - start_ns);
    wait_for(control, all_bytes);
    held_bytes = all_bytes;
    std::int64_t offset = 0;
    for_each_piece([&](std::size_t arena, std::int64_t begin, std::int64_t end) {
      for_each_part(live[arena], begin, end, [&](auto from, auto to) {
        file.read(offset, arenas_[arena].data + from, to - from);
        offset += to - from;
      });
    });
  } catch (...) {
    memory_.give_back(held_bytes);  // the run ends
    throw;
  }
  away_ = false;
}

HeldArena::HeldArena(RunArenas* arenas, RunControl& control, std::int64_t bytes)
    : arenas_(bytes > 0 ? arenas : nullptr) {
  if (arenas_ != nullptr) arenas_->take(control, bytes);
}

HeldArena::~HeldArena() {
  if (arenas_ != nullptr) arenas_->drop();
}

void HeldArena::place(std::byte* data) {
  if (arenas_ != nullptr) arenas_->arenas_.back().data = data;
}

}  // namespace tessera::runtime
