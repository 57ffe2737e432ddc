// Streams, events and memory of a device that is not a host. Host devices (CPU, reference, null) have none of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace tessera::backends {

// Whether the addresses of a tensor are host or device addresses. The host must not access memory by a device address.
enum class MemorySpace : std::uint8_t { host, device };

// A point in a stream (Stream::record) that hosts and other streams can wait for. Thread-safe.
class Event {
 public:
  virtual ~Event() = default;
  // Whether the stream has passed the latest record of the event. True if the event was never recorded.
  virtual bool done() const = 0;
  // Blocks the calling thread until done(). Throws Error if work failed that was enqueued before the record.
  virtual void wait() const = 0;
  // The device's clock, in nanoseconds, when the stream passed the record; 0 if the event was never recorded. The
  // origin is arbitrary: only differences between events of one device have a meaning. Requires done().
  virtual std::int64_t time_ns() const = 0;
};

class Stream;

// Recorded work of one or several streams that can be enqueued again as a whole, at the price of one launch. It keeps
// the addresses and arguments of its operations, so the memory and kernels that it uses must outlive it.
class Recording {
 public:
  virtual ~Recording() = default;
  // Enqueues all operations on the stream, which must belong to the device that recorded them and record nothing, and
  // returns. Each replay also comes after the earlier replays of the same recording, on whatever stream these were.
  virtual void replay(Stream& stream) = 0;
};

// An ordered queue of work on a device. Every call enqueues and returns; the device executes the work in order.
//
// Lifetimes: memory, kernels and events in use must stay valid until the stream has passed them, that is until
// synchronise() returns, or the wait for an event recorded after them.
//
// Errors: failed work is reported as Error by the next synchronise() or Event::wait(); work enqueued after it is not
// executed.
//
// One thread at a time may use a stream. The destructor waits until the queue is empty and reports no errors.
class Stream {
 public:
  virtual ~Stream() = default;
  // Each copies `bytes` bytes. `from` and `to` must not overlap. Copies from and to pinned host memory
  // (DeviceMemory::allocate_host) are asynchronous. A copy from or to other host memory may block the calling thread
  // until all work on the stream and the copy itself are done; it may also return earlier, so the caller keeps the
  // memory as for any enqueued work.
  virtual void copy_to_device(void* to, const void* from, std::int64_t bytes) = 0;
  virtual void copy_to_host(void* to, const void* from, std::int64_t bytes) = 0;
  virtual void copy_within(void* to, const void* from, std::int64_t bytes) = 0;
  // Sets each of `bytes` bytes of device memory to `value`.
  virtual void fill(void* to, std::byte value, std::int64_t bytes) = 0;

  // Records the event at this point; replaces an earlier record of the same event.
  virtual void record(Event& event) = 0;
  // Makes work enqueued after this call wait for the event, which may belong to another stream of the device.
  virtual void wait(const Event& event) = 0;
  // Blocks the calling thread until the queue is empty. Throws Error if work failed, once for each failure; the stream
  // can be used again afterwards.
  virtual void synchronise() = 0;

  // Between begin_capture() and end_capture(), both called by the same thread, the work of this stream is recorded and
  // not executed. Other streams join the capture when they wait for an event that was recorded in a capturing stream,
  // and their work is recorded with it. Each of them must be joined back, by a chain of events that this stream waits
  // for, before the capture ends (CUDA: "Any other streams which are being captured to the same capture graph, due to
  // event-based dependencies, must also be joined back to the origin stream").
  //
  // An event recorded during a capture orders the recorded work and nothing else: it can be waited for by streams of
  // the same capture until the capture ends, and not again until it is recorded anew.
  //
  // A capture is invalidated by
  // - copies from or to host memory that is not pinned,
  // - a capturing stream that waits for an event that was not recorded in the same capture,
  // - host waits and queries (synchronise(), Event::wait(), Event::done()), allocations and frees of device or pinned
  //   memory, and replays, by the thread that captures.
  // The call throws Error where it can, and end_capture() then throws as well. Once end_capture() has returned or
  // thrown, all streams work as before the capture.
  //
  // Throws Error(unsupported) unless Device::can_capture().
  virtual void begin_capture();
  // Ends the capture, which must have begun on this stream. If `previous` differs from what was recorded in addresses,
  // arguments and durations alone (equal operations in equal order on as many streams), it is updated, which costs much
  // less than a new recording, and returned. Replays that are already enqueued keep the former arguments.
  virtual std::unique_ptr<Recording> end_capture(std::unique_ptr<Recording> previous = nullptr);
  // Ends the capture, if there is one, without a recording.
  void abandon_capture() noexcept;
  // Whether work on the stream is recorded instead of executed.
  virtual bool is_capturing() const { return false; }
};

// The memory of a device, and the host memory that it can access by itself. Thread-safe.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  // Allocates at least `bytes` bytes, uninitialised and aligned to 256 bytes. Work enqueued on `stream` after this call
  // may use them; without a stream, work on any stream. Never returns null. Throws Error(over_budget), which states the
  // bytes in use and the capacity.
  virtual void* allocate(std::int64_t bytes, Stream* stream = nullptr) = 0;
  // Frees a block that allocate() returned, once `stream` has passed this point; without a stream immediately, in which
  // case no enqueued work may use the block.
  virtual void free(void* address, Stream* stream = nullptr) noexcept = 0;
  virtual std::int64_t capacity_bytes() const = 0;
  virtual std::int64_t in_use_bytes() const = 0;
  // Whether the address lies in memory of this device, no matter who allocated it.
  virtual bool contains(const void* address) const = 0;

  // Allocates at least `bytes` bytes of pinned (page-locked) host memory, uninitialised and aligned to at least 64
  // bytes: the device copies from and to it without the host. Takes long, and the pages cannot be swapped out, so
  // callers keep and bound what they allocate. Never returns null. Throws Error(over_budget).
  virtual void* allocate_host(std::int64_t bytes) = 0;
  // Frees a block that allocate_host() returned and that no enqueued work uses.
  virtual void free_host(void* address) noexcept = 0;
  // Whether the address lies in a block of allocate_host().
  virtual bool is_pinned(const void* address) const = 0;
  virtual std::int64_t pinned_bytes() const = 0;
};

}  // namespace tessera::backends
