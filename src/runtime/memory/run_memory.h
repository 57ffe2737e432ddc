// The temporary memory of a run, for which somebody else is charged: the gate of a run (RunOptions::gate) may name
// one, which grants the run its arenas and may ask for them back between two steps.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::runtime {

// The run's thread alone calls this, except where said.
class RunMemory {
 public:
  // Spilled memory comes back when others left it alone for as long as the spill took, at most so long.
  static constexpr std::int64_t kMostQuietNs = 1'000'000'000;

  virtual ~RunMemory() = default;
  // Charges the run with so many bytes. False where they are not free yet and the run has to wait for others to end or
  // to give theirs back. Where it `holds_more`, it gives that back before it waits, and never has to unless the gate
  // may ask it for memory. Throws Error(over_budget) where waiting would not help.
  virtual bool try_take(std::int64_t bytes, bool holds_more) = 0;
  // After try_take said no; the run holds no core. Returns when it may be worth asking again.
  virtual void wait() = 0;
  virtual void give_back(std::int64_t bytes) noexcept = 0;

  // The bytes of this run that others wait for; 0: none. Quick.
  virtual std::int64_t wanted_bytes() const noexcept = 0;
  // Whether it is the job of this process that is charged, which else is charged beside.
  virtual bool is_of_process() const noexcept { return false; }
  // The folder in which the contents are kept meanwhile.
  virtual const std::string& spill_folder() const noexcept = 0;
  // The run has given all its memory back and will ask for it again. It wrote so many bytes of it to a file, which took
  // so long.
  virtual void spilled(std::int64_t written_bytes, std::int64_t took_ns) noexcept = 0;
};

}  // namespace tessera::runtime
