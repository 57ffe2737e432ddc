#include "emulation/block.h"

#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "emulation/sanitizers.h"

namespace tessera::emulation {
namespace {

constexpr std::size_t kStackBytes = sanitizers::kAddresses || sanitizers::kRaces ? 256 * 1024 : 64 * 1024;
thread_local Block* current_block = nullptr;

}  // namespace

// Turns a touch of a guard page by a running kernel into a fault of that kernel; other faults of the process go to the
// handler that was there before.
struct FaultHandler {
  static void install() {
    static const bool installed = [] {
      struct sigaction action{};
      action.sa_sigaction = &FaultHandler::handle;
      action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
      sigaction(SIGSEGV, &action, &before);
      return true;
    }();
    (void)installed;
    static thread_local std::vector<std::byte> stack(64 * 1024);
    static thread_local bool known = false;
    if (!known) {
      stack_t alternative{};
      alternative.ss_sp = stack.data();
      alternative.ss_size = stack.size();
      sigaltstack(&alternative, nullptr);
      known = true;
    }
  }

  static void handle(int signal, siginfo_t* info, void* context) {
    Block* block = current_block;
    if (block == nullptr || block->running_ == nullptr) {
      if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr) {
        return before.sa_sigaction(signal, info, context);
      }
      ::signal(SIGSEGV, SIG_DFL);
      return;
    }
    bad_address = info->si_addr;
    siglongjmp(block->escape_, 1);
  }

  static inline struct sigaction before{};
  static inline thread_local void* bad_address = nullptr;
};

std::string text_of(Site site) {
  const std::string path = site.file_name();
  return path.substr(path.find_last_of('/') + 1) + ":" + std::to_string(site.line());
}

void AsyncGroups::commit() {
  committed.push_back(std::exchange(open, {}));
}

void AsyncGroups::wait(unsigned count) {
  while (committed.size() > count) {
    for (const auto& effect : committed.front()) effect();
    committed.pop_front();
  }
}

void AsyncGroups::land_all() {
  commit();
  wait(0);
}

Block::Block(const LaunchOptions& options) : options_(options), random_(options.seed) {
  threads_.resize(options.block.count());
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    threads_[i].fiber = std::make_unique<Fiber>(kStackBytes);
    threads_[i].block = this;
    threads_[i].number = static_cast<unsigned>(i);
    const unsigned number = threads_[i].number, x = options.block.x, y = options.block.y;
    threads_[i].index = {number % x, number / x % y, number / (x * y)};
  }
}

Block::~Block() = default;

Block& Block::current() {
  return *current_block;
}
Thread& Block::thread() {
  return *current_block->running_;
}

void Block::enter(void* argument) {
  auto& thread = *static_cast<Thread*>(argument);
  const std::function<void()>* body = nullptr;
  {
    const sanitizers::Unwatched beginning;
    sanitizers::acquire(&thread.block->order_);
    body = thread.block->body_;
  }
  (*body)();
  {
    const sanitizers::Unwatched ending;
    thread.copies.land_all();
    thread.state = Thread::State::finished;
    sanitizers::release(&thread.block->order_);
  }
  for (;;) thread.block->leave();
}

void Block::run(Dim3 index, const std::function<void()>& body) {
  const sanitizers::Unwatched unwatched;
  FaultHandler::install();
  index_ = index;
  body_ = &body;
  faulted_ = false;
  gatherings_.clear();
  barriers_ = {};
  in_flight_.clear();
  phase_barriers_.clear();
  products_.assign((threads_.size() + 127) / 128, {});
  shared_.begin_block(options_.dynamic_shared_bytes);
  for (Thread& thread : threads_) {
    thread.state = Thread::State::ready;
    thread.test = nullptr;
    thread.copies = {};
    thread.fiber->start(&Block::enter, &thread);
  }
  Block* outer = std::exchange(current_block, this);
  block_index = index;
  block_size = options_.block;
  grid_size = options_.grid;
  sanitizers::release(&order_);
  schedule();
  sanitizers::acquire(&order_);
  current_block = outer;
  if (!faulted_ && !shared_.intact()) {
    faulted_ = true;
    fault_ = "a write to shared memory beside every object, found when the block had ended";
  }
  if (faulted_) {
    std::ostringstream text;
    text << "block (" << index.x << ", " << index.y << ", " << index.z << ")";
    if (running_ != nullptr) text << ", " << place_of(*running_);
    running_ = nullptr;
    throw KernelFault(text.str() + ": " + fault_);
  }
}

std::string Block::place_of(const Thread& thread) const {
  return "thread (" + std::to_string(thread.index.x) + ", " + std::to_string(thread.index.y) + ", " +
         std::to_string(thread.index.z) + ")";
}

unsigned Block::live_threads() const {
  return static_cast<unsigned>(std::count_if(
      threads_.begin(), threads_.end(), [](const Thread& thread) { return thread.state != Thread::State::finished; }));
}

void Block::schedule() {
  if (sigsetjmp(escape_, 1) != 0) {
    faulted_ = true;
    scheduler_.resume_after_jump(*running_->fiber);
    const void* address = FaultHandler::bad_address;
    std::ostringstream text;
    if (running_->fiber->overflowed_at(address)) {
      text << "the thread's stack overflowed";
    } else if (shared_.guards(address)) {
      text << "an access outside shared memory";
    } else {
      text << "an access to global memory outside every buffer, at " << address;
    }
    fault_ = text.str();
    return;
  }
  while (!faulted_ && live_threads() > 0) {
    if (options_.landing == Landing::random && !in_flight_.empty() && random_() % 4 == 0) land_one();
    Thread* next = next_ready();
    if (next != nullptr) {
      continue_thread(*next);
      continue;
    }
    if (land_one()) continue;
    running_ = nullptr;
    faulted_ = true;
    fault_ = "deadlock: " + describe_waits();
  }
  if (!faulted_) {
    while (land_one()) {
    }
    for (const Products& products : products_) {
      if (products.accumulators.empty()) continue;
      faulted_ = true;
      fault_ = "the kernel ended while a wgmma that no wgmma.wait_group awaited was under way";
    }
    running_ = nullptr;
  }
}

// The next thread to run: round robin without a seed, so that threads which poll do not starve others; else any.
Thread* Block::next_ready() {
  for (Thread& thread : threads_) {
    if (thread.state == Thread::State::waiting && thread.test && thread.test()) {
      thread.state = Thread::State::ready;
      thread.test = nullptr;
    }
  }
  const std::size_t count = threads_.size();
  const std::size_t begin = options_.seed != 0 ? random_() % count : running_ != nullptr ? running_->number + 1 : 0;
  for (std::size_t i = 0; i < count; ++i) {
    Thread& thread = threads_[(begin + i) % count];
    if (thread.state == Thread::State::ready) return &thread;
  }
  return nullptr;
}

void Block::continue_thread(Thread& thread) {
  running_ = &thread;
  thread_index = thread.index;
  sanitizers::run_with(&thread.unwatched);
  thread.fiber->switch_from(scheduler_);
  sanitizers::run_with(nullptr);
  if (thread.state == Thread::State::finished) {
    finish_gatherings();
    finish_barriers();
  }
}

void Block::leave() {
  scheduler_.switch_from(*running_->fiber);
}

void Block::yield() {
  leave();
}

void Block::fault(const std::string& what, Site site) {
  faulted_ = true;
  fault_ = what + " (" + text_of(site) + ")";
  sanitizers::watch_again();
  for (;;) leave();
}

bool Block::land_one() {
  if (in_flight_.empty()) return false;
  const std::size_t which = options_.seed != 0 ? random_() % in_flight_.size() : 0;
  const auto effect = std::move(in_flight_[which]);
  in_flight_.erase(in_flight_.begin() + static_cast<std::ptrdiff_t>(which));
  effect();
  return true;
}

bool Block::lands_now() {
  return options_.landing == Landing::early || (options_.landing == Landing::random && random_() % 2 == 0);
}

void Block::land_later(std::function<void()> effect) {
  const sanitizers::Unwatched unwatched;
  if (lands_now()) {
    effect();
  } else {
    in_flight_.push_back(std::move(effect));
  }
}

void Block::declare_shared(std::size_t bytes, Site site) {
  if (shared_.used_bytes() > options_.shared_limit_bytes) {
    fault("shared memory of " + std::to_string(shared_.used_bytes()) + " bytes, of which " + std::to_string(bytes) +
              " are declared here; a block has " + std::to_string(options_.shared_limit_bytes),
          site);
  }
}

void Block::wait_until(std::function<bool()> test, std::string what, Site site) {
  const sanitizers::Unwatched unwatched;
  if (test()) return;
  running_->waits_for = std::move(what) + " (" + text_of(site) + ")";
  running_->test = std::move(test);
  running_->state = Thread::State::waiting;
  leave();
}

// Two threads of a warp that wait for each other with different masks or operations never meet.
void Block::check_conflicts(const Gathering& mine, Site site) {
  for (const auto& other : gatherings_) {
    if (other.get() == &mine || other->done || other->group.first != mine.group.first ||
        other->group.count != mine.group.count) {
      continue;
    }
    for (unsigned i = 0; i < mine.group.count; ++i) {
      const bool awaited = mine.group.count > 32 || (mine.mask >> i & 1) != 0;
      const bool awaits_me = other->group.count > 32 || (other->mask >> (running_->number - mine.group.first) & 1) != 0;
      if (!awaited || !awaits_me || !other->arrived[i]) continue;
      std::ostringstream text;
      text << mine.name << " with mask 0x" << std::hex << mine.mask << std::dec << " waits for "
           << place_of(threads_[mine.group.first + i]) << ", which waits at " << other->name << " with mask 0x"
           << std::hex << other->mask << " (" << text_of(other->site) << ")";
      fault(text.str(), site);
    }
  }
}

void Block::gather(Group group, std::uint32_t mask, const char* name, void* argument,
                   const std::function<void(void* const*)>& execute, bool aligned, Site site) {
  const sanitizers::Unwatched unwatched;
  const unsigned place = running_->number - group.first;
  if (group.count <= 32 && (mask >> place & 1) == 0) {
    std::ostringstream text;
    text << name << " by a thread that its mask 0x" << std::hex << mask << " does not name";
    fault(text.str(), site);
  }
  if (aligned) {
    for (unsigned i = 0; i < group.count; ++i) {
      if (group.first + i >= threads_.size() || threads_[group.first + i].state == Thread::State::finished) {
        fault(std::string(name) + " needs all " + std::to_string(group.count) +
                  " threads of the group, and some are none or have ended",
              site);
      }
    }
  }
  std::shared_ptr<Gathering> mine;
  for (const auto& other : gatherings_) {
    const bool same = other->group.first == group.first && other->group.count == group.count && other->mask == mask &&
                      other->name == std::string_view(name) && !other->done && !other->arrived[place];
    if (!same) continue;
    if (aligned &&
        (other->site.line() != site.line() || other->site.file_name() != std::string_view(site.file_name()))) {
      fault(std::string(name) + " is reached by threads of one group at two places, the other being " +
                text_of(other->site),
            site);
    }
    mine = other;
  }
  if (mine == nullptr) {
    mine = std::make_shared<Gathering>(Gathering{group, mask, name, site, execute, aligned});
    gatherings_.push_back(mine);
  }
  mine->arguments[place] = argument;
  mine->arrived[place] = true;
  sanitizers::release(mine.get());
  check_conflicts(*mine, site);
  finish_gatherings();
  if (!mine->done) {
    running_->waits_for = std::string(name) + " (" + text_of(site) + ")";
    running_->state = Thread::State::waiting;
    leave();
  }
  sanitizers::acquire(mine.get());
}

bool Block::complete(Gathering& gathering) {
  for (unsigned i = 0; i < gathering.group.count; ++i) {
    const bool named = gathering.group.count > 32 || (gathering.mask >> i & 1) != 0;
    const unsigned number = gathering.group.first + i;
    const bool lives = number < threads_.size() && threads_[number].state != Thread::State::finished;
    if (named && (lives || gathering.aligned) && !gathering.arrived[i]) return false;
  }
  return true;
}

void Block::finish_gatherings() {
  for (std::size_t g = 0; g < gatherings_.size();) {
    const std::shared_ptr<Gathering> gathering = gatherings_[g];
    if (!complete(*gathering)) {
      ++g;
      continue;
    }
    gatherings_.erase(gatherings_.begin() + static_cast<std::ptrdiff_t>(g));
    sanitizers::acquire(gathering.get());
    {
      const sanitizers::Watched watched;
      gathering->execute(gathering->arguments.data());
    }
    sanitizers::release(gathering.get());
    gathering->done = true;
    for (unsigned i = 0; i < gathering->group.count; ++i) {
      if (gathering->arrived[i]) threads_[gathering->group.first + i].state = Thread::State::ready;
    }
  }
}

unsigned Block::arrive(unsigned id, unsigned count, bool waits, bool value, const char* name, Site site) {
  const sanitizers::Unwatched unwatched;
  if (id >= barriers_.size())
    fault(std::string(name) + ": there are 16 barriers, not one of number " + std::to_string(id), site);
  if (count % 32 != 0)
    fault(std::string(name) + " for " + std::to_string(count) + " threads, which is no multiple of 32", site);
  Barrier& barrier = barriers_[id];
  if (!barrier.in_use) {
    barrier.in_use = true;
    barrier.count = count;
    barrier.site = site;
    barrier.arrived = barrier.nonzero = 0;
    barrier.threads.clear();
  } else if (barrier.count != count) {
    fault(std::string(name) + " on barrier " + std::to_string(id) + " for " + std::to_string(count) +
              " threads, where others came for " + std::to_string(barrier.count) + " (" + text_of(barrier.site) + ")",
          site);
  } else if (count == 0 &&
             (barrier.site.line() != site.line() || barrier.site.file_name() != std::string_view(site.file_name()))) {
    fault(std::string(name) + " is reached by threads of the block at two places, the other being " +
              text_of(barrier.site),
          site);
  }
  const unsigned generation = barrier.generation;
  ++barrier.arrived;
  barrier.nonzero += value ? 1 : 0;
  barrier.threads.push_back(running_->number);
  sanitizers::release(&barrier.order);
  finish_barrier(id, barrier);
  if (!waits) return 0;
  if (barrier.generation == generation) {
    running_->waits_for = std::string(name) + " (" + text_of(site) + ")";
    running_->test = [&barrier, generation] { return barrier.generation != generation; };
    running_->state = Thread::State::waiting;
    leave();
  }
  sanitizers::acquire(&barrier.order);
  return barrier.last_nonzero;
}

void Block::finish_barriers() {
  for (unsigned id = 0; id < barriers_.size(); ++id) {
    if (barriers_[id].in_use) finish_barrier(id, barriers_[id]);
  }
}

// Opens the barrier if enough threads have arrived; those of one warp have to arrive together.
void Block::finish_barrier(unsigned id, Barrier& barrier) {
  const unsigned wanted = barrier.count != 0 ? barrier.count : live_threads();
  if (barrier.arrived < wanted) return;
  std::vector<unsigned> of_warp((threads_.size() + 31) / 32, 0);
  for (const unsigned number : barrier.threads) ++of_warp[number / 32];
  for (std::size_t warp = 0; warp < of_warp.size() && barrier.count != 0; ++warp) {
    if (of_warp[warp] == 0 || of_warp[warp] % 32 == 0) continue;
    const Site site = barrier.site;
    if (running_ != nullptr && running_->state != Thread::State::finished) {
      fault("barrier " + std::to_string(id) + " was reached by " + std::to_string(of_warp[warp]) + " threads of warp " +
                std::to_string(warp) + " only",
            site);
    }
  }
  barrier.last_nonzero = barrier.nonzero;
  barrier.in_use = false;
  ++barrier.generation;
}

PhaseBarrier& Block::phase_barrier(const void* address, const char* name, Site site) {
  const sanitizers::Unwatched unwatched;
  if (!shared_.holds(address, 8)) fault(std::string(name) + " on a barrier object outside shared memory", site);
  const std::uint32_t offset = shared_.offset_of(address);
  for (PhaseBarrier& barrier : phase_barriers_) {
    if (barrier.offset == offset) return barrier;
  }
  fault(std::string(name) + " on a barrier object that nothing has initialised", site);
}

std::string Block::describe_waits() const {
  std::vector<std::pair<std::string, std::vector<unsigned>>> waits;
  for (const Thread& thread : threads_) {
    if (thread.state != Thread::State::waiting) continue;
    const auto known =
        std::find_if(waits.begin(), waits.end(), [&](const auto& wait) { return wait.first == thread.waits_for; });
    if (known != waits.end()) {
      known->second.push_back(thread.number);
    } else {
      waits.push_back({thread.waits_for, {thread.number}});
    }
  }
  std::string text;
  for (const auto& [what, numbers] : waits) {
    text += (text.empty() ? "" : "; ") + std::to_string(numbers.size()) + " threads, the first of number " +
            std::to_string(numbers.front()) + ", wait at " + what;
  }
  const auto ended = threads_.size() - live_threads();
  return ended == 0 ? text : text + "; " + std::to_string(ended) + " threads have ended";
}

}  // namespace tessera::emulation
