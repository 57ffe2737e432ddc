#include "backends/simulated/memory_checker.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace tessera::backends::simulated {
namespace {

std::uintptr_t begin_of(const MemoryAccess& access) {
  return reinterpret_cast<std::uintptr_t>(access.address);
}

std::uintptr_t end_of(const MemoryAccess& access) {
  return begin_of(access) + static_cast<std::uintptr_t>(access.bytes);
}

void merge(MemoryChecker::Point& into, const MemoryChecker::Point& from) {
  for (const auto& [stream, operations] : from) {
    std::int64_t& known = into[stream];
    known = std::max(known, operations);
  }
}

}  // namespace

bool MemoryChecker::is_before(const Use& use, const Point& point) const {
  if (use.stream < 0 || !points_.contains(use.stream)) return true;
  const auto known = point.find(use.stream);
  return known != point.end() && known->second >= use.number;
}

void MemoryChecker::check_allocated(std::string_view name, const MemoryAccess& access,
                                    const MirroredMemory& memory) const {
  if (!memory.contains(access.address)) return;  // host memory
  const auto after = blocks_.upper_bound(begin_of(access));
  const bool found = after != blocks_.begin() &&
                     end_of(access) <= std::prev(after)->first + static_cast<std::uintptr_t>(std::prev(after)->second);
  require(found, ErrorKind::failed, "'{}' {} {} bytes of device memory that are not allocated, or not any more", name,
          access.writes ? "writes" : "reads", access.bytes);
}

MemoryChecker::Segments::const_iterator MemoryChecker::first_overlapping(std::uintptr_t begin) const {
  auto found = segments_.upper_bound(begin);
  if (found != segments_.begin() && std::prev(found)->second.end > begin) --found;
  return found;
}

MemoryChecker::Conflict MemoryChecker::find_conflict(const MemoryAccess& access, const Point& point) const {
  for (auto at = first_overlapping(begin_of(access)); at != segments_.end() && at->first < end_of(access); ++at) {
    const Segment& segment = at->second;
    if (!is_before(segment.written, point)) return {&segment.written, true};
    if (!access.writes) continue;
    const auto read = std::ranges::find_if(segment.read, [&](const Use& use) { return !is_before(use, point); });
    if (read != segment.read.end()) return {&*read, false};
  }
  return {};
}

void MemoryChecker::split(std::uintptr_t at) {
  const auto after = segments_.upper_bound(at);
  if (after == segments_.begin()) return;
  const auto found = std::prev(after);
  if (found->first == at || found->second.end <= at) return;
  segments_.emplace_hint(after, at, found->second);
  found->second.end = at;
}

void MemoryChecker::record(const MemoryAccess& access, const Use& use) {
  const std::uintptr_t begin = begin_of(access), end = end_of(access);
  split(begin);
  split(end);
  if (access.writes) {
    forget(begin, end);
    segments_[begin] = {end, use, {}};
    return;
  }
  std::uintptr_t next = begin;  // the first byte that is not recorded yet
  for (auto at = segments_.lower_bound(begin); at != segments_.end() && at->first < end; ++at) {
    if (at->first > next) segments_.emplace_hint(at, next, Segment{at->first, {}, {use}});
    std::vector<Use>& read = at->second.read;
    const auto own = std::ranges::find(read, use.stream, &Use::stream);
    if (own != read.end()) *own = use;
    else read.push_back(use);
    next = at->second.end;
  }
  if (next < end) segments_[next] = {end, {}, {use}};
}

void MemoryChecker::forget(std::uintptr_t begin, std::uintptr_t end) {
  segments_.erase(segments_.lower_bound(begin), segments_.lower_bound(end));
}

void MemoryChecker::add(int stream, std::string_view name, std::span<const MemoryAccess> accesses,
                        const MirroredMemory& memory) {
  throw_pending();
  const std::lock_guard lock(mutex_);
  Point& point = points_[stream];
  merge(point, host_);
  const Use use{stream, ++point[stream], name};
  for (const MemoryAccess& access : accesses) {
    if (access.bytes <= 0) continue;
    check_allocated(name, access, memory);
    // "Different streams, on the other hand, may execute their commands out of order with respect to one another or
    // concurrently; this behavior is not guaranteed and should therefore not be relied upon for correctness."
    const Conflict other = find_conflict(access, point);
    if (other.use != nullptr)
      fail(ErrorKind::failed, "'{}' {} memory that '{}' of another stream {}, and no event orders the two", name,
           access.writes ? "writes" : "reads", other.use->name, other.writes ? "writes" : "reads");
    record(access, use);
  }
}

MemoryChecker::Point MemoryChecker::point_of(int stream) const {
  const std::lock_guard lock(mutex_);
  const auto found = points_.find(stream);
  return found != points_.end() ? found->second : Point();
}

void MemoryChecker::order_after(int stream, const Point& point) {
  const std::lock_guard lock(mutex_);
  merge(points_[stream], point);
}

void MemoryChecker::host_waited(const Point& point) {
  const std::lock_guard lock(mutex_);
  merge(host_, point);
}

void MemoryChecker::remove_stream(int stream) {
  const std::lock_guard lock(mutex_);
  points_.erase(stream);
  host_.erase(stream);
  for (auto& [other, point] : points_) point.erase(stream);
}

void MemoryChecker::allocated(const void* address, std::int64_t bytes, int stream) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard lock(mutex_);
  blocks_[begin] = bytes;
  forget(begin, begin + static_cast<std::uintptr_t>(bytes));
  if (stream < 0) return;
  Point& point = points_[stream];
  record({address, bytes, true}, {stream, ++point[stream], "allocation"});
}

std::string MemoryChecker::fault_of_free(std::uintptr_t begin, std::uintptr_t end, int stream) const {
  const auto own = points_.find(stream);
  Point point = own != points_.end() ? own->second : Point();
  merge(point, host_);
  const MemoryAccess all{reinterpret_cast<const void*>(begin), static_cast<std::int64_t>(end - begin), true};
  const Use* const use = find_conflict(all, point).use;
  if (use == nullptr) return "";
  return fmt::format("device memory was freed that '{}' may still use: {}", use->name,
                     stream < 0 ? "the host has not waited for it" : "no event orders it before the free");
}

void MemoryChecker::freed(const void* address, int stream) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard lock(mutex_);
  const auto block = blocks_.find(begin);
  if (block == blocks_.end()) return;
  const std::uintptr_t end = begin + static_cast<std::uintptr_t>(block->second);
  if (pending_.empty()) pending_ = fault_of_free(begin, end, stream);
  forget(begin, end);
  blocks_.erase(block);
}

void MemoryChecker::throw_pending() {
  std::string fault;
  {
    const std::lock_guard lock(mutex_);
    fault.swap(pending_);
  }
  if (!fault.empty()) fail(ErrorKind::failed, "{}", fault);
}

}  // namespace tessera::backends::simulated
