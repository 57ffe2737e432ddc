// What a device has that is not a host: memory of its own, queues that work in order, and marks in them. A host device
// (CPU, reference, null) has none of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace tessera::backends {

// Whose addresses a tensor holds. A host must not read or write through a device address.
enum class MemorySpace : std::uint8_t { host, device };

// A mark in a stream (Stream::record). Thread-safe.
class Event {
 public:
  virtual ~Event() = default;
  // Whether the stream has passed the latest record of the event. True for an event that was never recorded.
  virtual bool done() const = 0;
  // Blocks the calling thread until done(). Throws Error if work enqueued before the record failed.
  virtual void wait() const = 0;
  // The device's clock at the moment the stream passed the record. Differences between events of one device are
  // durations; the origin is arbitrary. Only of an event that is done; 0 for one that was never recorded.
  virtual std::int64_t time_ns() const = 0;
};

class Stream;

// Work of a stream that was recorded once and can be enqueued again as a whole. Everything in it keeps its addresses
// and arguments, so memory and kernels that it uses must outlive it.
class Recording {
 public:
  virtual ~Recording() = default;
  // Enqueues all of it on the stream, which belongs to the device that recorded it, and returns.
  virtual void replay(Stream& stream) = 0;
};

// A queue of a device. Every call enqueues and returns; the device executes what is enqueued in order. Memory, kernels
// and events that are enqueued must stay valid until the stream has passed them: after synchronise(), or after the wait
// of an event recorded behind them. Work that fails is reported as Error by the next synchronise() or Event::wait();
// what was enqueued behind it is not executed. One thread uses a stream at a time. The destructor waits for the queue
// to become empty and reports nothing.
class Stream {
 public:
  virtual ~Stream() = default;
  // Copies of `bytes` bytes. `from` and `to` do not overlap.
  virtual void copy_to_device(void* to, const void* from, std::int64_t bytes) = 0;
  virtual void copy_to_host(void* to, const void* from, std::int64_t bytes) = 0;
  virtual void copy_within(void* to, const void* from, std::int64_t bytes) = 0;
  // Sets every byte of device memory.
  virtual void fill(void* to, std::byte value, std::int64_t bytes) = 0;

  // A later record of the same event replaces an earlier one.
  virtual void record(Event& event) = 0;
  // What is enqueued from here on begins after the event, which may be of another stream of the device.
  virtual void wait(const Event& event) = 0;
  // Blocks the calling thread until the queue is empty. Throws Error if work failed, once for each failure; the stream
  // can be used again afterwards.
  virtual void synchronise() = 0;

  // From begin_capture() to end_capture() work is recorded and not executed; synchronise() and Event::wait() are not
  // allowed meanwhile. Throws Error(unsupported) unless Device::can_capture().
  virtual void begin_capture();
  virtual std::unique_ptr<Recording> end_capture();
};

// Memory of a device. Thread-safe.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  // At least `bytes` bytes, uninitialised, aligned to 256 bytes, that work enqueued on the stream from here on may use;
  // with no stream, work of any. Never null. Throws Error(over_budget) with what is in use and the capacity.
  virtual void* allocate(std::int64_t bytes, Stream* stream = nullptr) = 0;
  // Gives back what allocate returned, once the stream has passed this point; with no stream at once, after which
  // nothing enqueued may use it.
  virtual void free(void* address, Stream* stream = nullptr) noexcept = 0;
  virtual std::int64_t capacity_bytes() const = 0;
  virtual std::int64_t in_use_bytes() const = 0;
  // Whether the address lies in memory of this device, whoever holds it.
  virtual bool contains(const void* address) const = 0;
};

}  // namespace tessera::backends
