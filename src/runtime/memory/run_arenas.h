// The arenas of one run: charged to whom the run's gate says, and emptied into a file between two steps when others
// need the memory. An arena keeps its addresses meanwhile; its pages are given back to the system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/live_ranges.h"
#include "runtime/memory/run_memory.h"
#include "runtime/run/run_control.h"

namespace tessera::runtime {

// Used by the run's thread.
class RunArenas {
 public:
  explicit RunArenas(RunMemory& memory) : memory_(memory) {}
  RunArenas(const RunArenas&) = delete;
  RunArenas& operator=(const RunArenas&) = delete;

  bool is_of_process() const { return memory_.is_of_process(); }
  // Whether others need the memory, so that give_way() would empty the arenas.
  bool is_wanted() const { return memory_.wanted_bytes() > 0 && !arenas_.empty(); }

  // Between two steps of `plan`, `step` being the next, while no work is under way in its arena: if others need the
  // memory, gives it to them, waits without a core until it is free again, and brings the contents back. The plan's
  // arena is the latest that was taken. Throws Error(io) where they cannot be kept, and what stops the run: the
  // contents are lost then, the bytes given back.
  void give_way(RunControl& control, const plan::Plan& plan, std::size_t step);

 private:
  friend class HeldArena;
  struct Arena {
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
  };

  using Ranges = std::vector<plan::ByteRange>;

  template <typename Body>
  void for_each_piece(const Body& body) const;
  std::vector<Ranges> whole_arenas() const;
  void take(RunControl& control, std::int64_t bytes);
  void drop() noexcept;
  // These two are called without a core.
  void wait_for(RunControl& control, std::int64_t bytes);
  // `live`: what is kept, by arena. `more_bytes`: charged with what comes back.
  void spill_and_return(RunControl& control, const std::vector<Ranges>& live, std::int64_t more_bytes);

  RunMemory& memory_;
  std::vector<Arena> arenas_;  // of the graph and of the subgraphs that run within it
  bool away_ = false;          // all of it is given back, and not yet charged again
};

// An arena of the run for as long as this lives.
class HeldArena {
 public:
  // Waits, without a core, until the bytes are granted; `arenas` may be null. Throws Error(over_budget), and what stops
  // the run.
  HeldArena(RunArenas* arenas, RunControl& control, std::int64_t bytes);
  ~HeldArena();
  HeldArena(const HeldArena&) = delete;
  HeldArena& operator=(const HeldArena&) = delete;
  void place(std::byte* data);

 private:
  RunArenas* const arenas_;
};

}  // namespace tessera::runtime
