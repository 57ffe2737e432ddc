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

// A recorded sequence of a stream's work that can be enqueued again as a whole. It keeps the addresses and arguments of
// its operations, so the memory and kernels that it uses must outlive it.
class Recording {
 public:
  virtual ~Recording() = default;
  // Enqueues all operations on the stream, which must belong to the device that recorded them, and returns.
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
  // Each copies `bytes` bytes. `from` and `to` must not overlap.
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

  // Between begin_capture() and end_capture() work is recorded instead of executed; synchronise() and Event::wait() are
  // not allowed. Throws Error(unsupported) unless Device::can_capture().
  virtual void begin_capture();
  virtual std::unique_ptr<Recording> end_capture();
};

// The memory of a device. Thread-safe.
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
};

}  // namespace tessera::backends
