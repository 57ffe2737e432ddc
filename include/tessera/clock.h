// The time that a run reads: the machine's steady clock, or virtual time in a simulation.
#pragma once

#include <cstdint>
#include <memory>

#include "tessera/export.h"

namespace tessera {

// The clock of a run (RunOptions::clock): time limits, gates and turns on the cores use its time. Thread-safe.
class TESSERA_API Clock {
 public:
  // Lets one thread wait until another notifies it. A thread that works in a clock's time must wait only here, so that
  // virtual time can advance meanwhile.
  class TESSERA_API Signal {
   public:
    virtual ~Signal() = default;
    // Ends the wait in progress, or else the next one. May be called by any thread.
    virtual void notify() = 0;
    // Only one thread waits at a time.
    virtual void wait() = 0;
    // Returns false if the time was reached before a notification.
    virtual bool wait_until(std::int64_t time_ns) = 0;
  };

  virtual ~Clock() = default;
  virtual std::int64_t now_ns() const = 0;
  virtual void sleep_until(std::int64_t time_ns) = 0;
  virtual std::unique_ptr<Signal> make_signal() = 0;

  // The machine's steady clock.
  static Clock& steady();
};

}  // namespace tessera
