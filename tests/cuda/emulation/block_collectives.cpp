// The operations that threads of a block perform together: gatherings of a warp or warpgroup, barriers of the block,
// and barrier objects in shared memory.
#include <algorithm>
#include <sstream>
#include <utility>

#include "emulation/block.h"
#include "emulation/sanitizers.h"

namespace tessera::emulation {

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

}  // namespace tessera::emulation
