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

TESSERA_UNWATCHED void Block::leave() {
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
