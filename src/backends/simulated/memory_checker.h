// Finds operations that use memory of a simulated device as CUDA forbids: memory that is not allocated, and bytes that
// operations of two streams touch without an order between them (a race). Sentences of the CUDA C++ Programming Guide
// are quoted beside the rule that follows them.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/simulated/mirrored_memory.h"

namespace tessera::backends::simulated {

// A range of memory that an operation reads or writes.
struct MemoryAccess {
  const void* address = nullptr;
  std::int64_t bytes = 0;
  bool writes = false;
};

// Follows the order between operations by vector clocks: an operation comes after those before it on its stream, after
// those that its stream waited for, and after those that the host had waited for when it enqueued the operation (host
// threads count as one, because they order themselves by other means). Host accesses are not seen. Thread-safe.
class MemoryChecker {
 public:
  // By stream: how many of its operations come before a point.
  using Point = std::map<int, std::int64_t>;

  // An operation on the stream. Throws Error(failed) that names the operation and the fault. `memory`: the device's, in
  // which all bytes must be allocated.
  void add(int stream, std::string_view name, std::span<const MemoryAccess> accesses, const MirroredMemory& memory);

  // The point after all operations of the stream.
  Point point_of(int stream) const;
  // Later operations of the stream come after the point.
  void order_after(int stream, const Point& point);
  // Operations that are enqueued from here on come after the point.
  void host_waited(const Point& point);
  // The stream is gone and all of its operations are done.
  void remove_stream(int stream);

  // A block was allocated for work of the stream from here on; without one (-1), for all work that is enqueued from
  // here on. "All asynchronous accesses of the allocation must happen between the stream executions of the allocation
  // and the free."
  void allocated(const void* address, std::int64_t bytes, int stream);
  // A block was freed in the order of a stream or, without one (-1), at once. Work that may still use it is a fault
  // that is kept for the next call of throw_pending(): "If the memory is accessed outside of the promised stream order,
  // a use before allocation / use after free error will cause undefined behavior."
  void freed(const void* address, int stream) noexcept;
  // Throws Error(failed), once, if a fault is kept.
  void throw_pending();

 private:
  struct Use {
    int stream = -1;  // -1: none
    std::int64_t number = 0;
    std::string_view name;
  };
  struct Segment {
    std::uintptr_t end = 0;
    Use written;
    std::vector<Use> read;  // since then, at most one per stream
  };
  using Segments = std::map<std::uintptr_t, Segment>;  // by their first byte

  bool is_before(const Use& use, const Point& point) const;
  void check_allocated(std::string_view name, const MemoryAccess& access, const MirroredMemory& memory) const;
  struct Conflict {
    const Use* use = nullptr;  // null: none
    bool writes = false;
  };
  // The use that conflicts with the access at the point.
  Conflict find_conflict(const MemoryAccess& access, const Point& point) const;
  void record(const MemoryAccess& access, const Use& use);
  void split(std::uintptr_t at);
  Segments::const_iterator first_overlapping(std::uintptr_t begin) const;
  void forget(std::uintptr_t begin, std::uintptr_t end);
  std::string fault_of_free(std::uintptr_t begin, std::uintptr_t end, int stream) const;

  mutable std::mutex mutex_;
  std::map<std::uintptr_t, std::int64_t> blocks_;  // allocated ones: bytes by address
  Segments segments_;
  std::map<int, Point> points_;  // of the streams that live
  Point host_;
  std::string pending_;
};

}  // namespace tessera::backends::simulated
