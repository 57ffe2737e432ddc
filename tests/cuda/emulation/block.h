// The threads of one block, each a fiber, and what they do together. The whole block runs on the calling thread: a
// fiber runs until it waits for others, and the schedule says which one continues. The last thread to arrive at a
// block-, warp- or warpgroup-wide operation executes it for all.
#pragma once

#include <array>
#include <csetjmp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>

#include "emulation/fiber.h"
#include "emulation/guarded_memory.h"

namespace tessera::emulation {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
  unsigned count() const { return x * y * z; }
};

// When an asynchronous copy or product takes effect. `late`: when its completion is awaited, or when no thread can go
// on; `early`: at once; `random`: at any moment between the two. All three are legal on a device.
enum class Landing { late, early, random };

struct LaunchOptions {
  Dim3 grid, block;
  std::size_t dynamic_shared_bytes = 0;
  std::uint64_t seed = 0;  // 0: threads and blocks run in ascending order; others shuffle them
  Landing landing = Landing::late;
  std::size_t shared_limit_bytes = 227 * 1024;  // what a block may use at most
};

// A kernel did what a device forbids or leaves undefined. The message names the kernel's block and thread, and what
// happened.
class KernelFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using Site = std::source_location;

// Pending asynchronous work of a thread or warpgroup: groups in order of their commit, the last one still open.
struct AsyncGroups {
  std::deque<std::vector<std::function<void()>>> committed;
  std::vector<std::function<void()>> open;
  void commit();
  // Lands groups in order until at most `count` committed ones are pending.
  void wait(unsigned count);
  void land_all();
};

// The asynchronous products of a warpgroup (PTX: wgmma). Until they land, the accumulators in the threads' registers
// are poisoned, and their values are here.
struct Products {
  struct Accumulators {
    std::array<void*, 128> registers{};  // of each thread
    std::size_t bytes = 0;               // per thread
    std::vector<std::byte> values;       // of all threads
    unsigned pending = 0;                // products that have not landed
  };
  AsyncGroups groups;
  std::vector<std::shared_ptr<Accumulators>> accumulators;
  bool fenced = false;  // a fence has ordered the registers before the next product
};

// A barrier object in shared memory (PTX: mbarrier).
struct PhaseBarrier {
  std::uint32_t offset = 0;       // of the 8 bytes that stand for it
  std::uint32_t expected = 0;     // arrivals of each phase
  std::uint32_t pending = 0;      // arrivals that the present phase lacks
  std::int64_t transactions = 0;  // bytes that the present phase lacks
  unsigned phase = 0;             // the parity of the present phase
};

struct Thread {
  enum class State { ready, waiting, finished };
  std::unique_ptr<Fiber> fiber;
  class Block* block = nullptr;
  unsigned number = 0;
  Dim3 index;
  State state = State::ready;
  std::string waits_for;       // what and where, while waiting
  std::function<bool()> test;  // set: becomes ready when this is true
  AsyncGroups copies;
  int unwatched = 0;  // sanitizers.h
  unsigned lane() const { return number % 32; }
};

// The threads that share an operation: a warp of 32 or a warpgroup of 128.
struct Group {
  unsigned first = 0, count = 32;
};

class Block {
 public:
  explicit Block(const LaunchOptions& options);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // Runs `body` once per thread of the block `index`. Throws KernelFault.
  void run(Dim3 index, const std::function<void()>& body);

  // The block that the calling thread emulates, and its running thread.
  static Block& current();
  static Thread& thread();

  // For threads of the kernel: ends the block with a fault.
  [[noreturn]] void fault(const std::string& what, Site site);

  // Waits until every thread of `group` that `mask` names (bit = number in the group; for groups above 32 threads, all)
  // has arrived at an operation of this name. The last to arrive calls `execute` with their arguments; null for threads
  // that have ended. `aligned`: faults unless all threads of the group arrive, from one place in the source.
  void gather(Group group, std::uint32_t mask, const char* name, void* argument,
              const std::function<void(void* const*)>& execute, bool aligned, Site site);

  // Barrier `id` of 16. `count`: threads that have to arrive, or 0 for all of the block that have not ended. Returns at
  // once unless `waits`. `value` is combined over the threads: the result has the number of threads with a value other
  // than zero.
  unsigned arrive(unsigned id, unsigned count, bool waits, bool value, const char* name, Site site);

  // Waits until `test` is true. `what` names the awaited thing.
  void wait_until(std::function<bool()> test, std::string what, Site site);
  // Lets other threads run.
  void yield();

  // Registers an effect on memory that takes place at any moment from here on.
  void land_later(std::function<void()> effect);
  bool lands_now();  // by options().landing; random draws anew each time

  PhaseBarrier& phase_barrier(const void* address, const char* name, Site site);
  std::vector<PhaseBarrier>& phase_barriers() { return phase_barriers_; }
  SharedMemory& shared() { return shared_; }
  Products& products_of(unsigned warpgroup) { return products_[warpgroup]; }
  const LaunchOptions& options() const { return options_; }
  std::mt19937_64& random() { return random_; }
  void declare_shared(std::size_t bytes, Site site);

 private:
  struct Gathering {
    Group group;
    std::uint32_t mask;
    const char* name;
    Site site;
    std::function<void(void* const*)> execute;
    bool aligned;
    std::array<void*, 128> arguments{};
    std::array<bool, 128> arrived{};
    bool done = false;
  };
  struct Barrier {
    unsigned count = 0, arrived = 0, nonzero = 0, generation = 0, last_nonzero = 0;
    bool in_use = false;
    Site site;
    std::vector<unsigned> threads;
    char order = 0;  // an address for the thread sanitizer
  };
  friend struct FaultHandler;

  static void enter(void* thread);
  void schedule();
  Thread* next_ready();
  void continue_thread(Thread& thread);
  void leave();  // back to the scheduler
  void wake();
  bool land_one();
  bool complete(Gathering& gathering);
  void finish_gatherings();
  void finish_barriers();
  void finish_barrier(unsigned id, Barrier& barrier);
  void check_conflicts(const Gathering& mine, Site site);
  std::string describe_waits() const;
  std::string place_of(const Thread& thread) const;
  unsigned live_threads() const;

  LaunchOptions options_;
  Fiber scheduler_;
  std::vector<Thread> threads_;
  Dim3 index_;
  const std::function<void()>* body_ = nullptr;
  Thread* running_ = nullptr;
  std::vector<std::shared_ptr<Gathering>> gatherings_;
  std::array<Barrier, 16> barriers_;
  std::deque<std::function<void()>> in_flight_;
  std::vector<PhaseBarrier> phase_barriers_;
  std::vector<Products> products_;
  SharedMemory shared_;
  std::mt19937_64 random_;
  char order_ = 0;  // an address for the thread sanitizer: the host's work is ordered before and after the block's
  std::string fault_;
  bool faulted_ = false;
  sigjmp_buf escape_;
};

// The place of the running thread in its launch, as CUDA names it. Written at every switch.
inline constinit thread_local Dim3 thread_index{0, 0, 0}, block_index{0, 0, 0}, block_size, grid_size;

// The file and line, such as "block_test.cpp:12".
std::string text_of(Site site);

}  // namespace tessera::emulation
