#include "plan/streams.h"

#include <algorithm>

#include "backends/device_properties.h"
#include "plan/byte_use.h"

namespace tessera::plan {
namespace {

using backends::MemorySpace;
using Known = std::vector<std::int32_t>;  // by stream: one more than the last step that comes before

constexpr std::int32_t kMostKernelStreams = 8;
// Finding out whether copies can overlap kernels looks at so many of them.
constexpr std::size_t kMostCopies = 64;

bool goes_on_stream(const Step& step) {
  return step.kind != StepKind::alias && (step.kind == StepKind::copy || step.space == MemorySpace::device);
}

void merge(Known& into, const Known& from) {
  for (std::size_t s = 0; s < into.size(); ++s) into[s] = std::max(into[s], from[s]);
}

// Vector clocks of the steps and of the host.
class Clocks {
 public:
  Clocks(std::size_t steps, std::size_t streams)
      : of_step_(steps), host_(streams, 0), tails_(streams, -1), stream_of_(steps, -1) {}

  // Step i is the next one on the stream.
  void enqueue(std::size_t i, std::size_t stream) {
    of_step_[i] = host_;
    if (tails_[stream] >= 0) merge(of_step_[i], of_step_[static_cast<std::size_t>(tails_[stream])]);
    of_step_[i][stream] = static_cast<std::int32_t>(i) + 1;
    tails_[stream] = static_cast<std::int32_t>(i);
    stream_of_[i] = static_cast<std::int32_t>(stream);
  }
  void wait(std::size_t i, std::size_t earlier) { merge(of_step_[i], of_step_[earlier]); }
  void host_waits(std::size_t for_step) { merge(host_, of_step_[for_step]); }
  bool is_enqueued(std::size_t i) const { return stream_of_[i] >= 0; }
  // Whether a step that knows these comes after the other one.
  bool comes_after(const Known& known, std::size_t earlier) const {
    return known[static_cast<std::size_t>(stream_of_[earlier])] > static_cast<std::int32_t>(earlier);
  }
  const Known& known(std::size_t i) const { return of_step_[i]; }
  const Known& host() const { return host_; }
  const std::vector<std::int32_t>& tails() const { return tails_; }  // by stream: its last step, or -1
  std::size_t stream_of(std::size_t i) const { return static_cast<std::size_t>(stream_of_[i]); }

 private:
  std::vector<Known> of_step_;
  Known host_;
  std::vector<std::int32_t> tails_, stream_of_;
};

class Assigner {
 public:
  Assigner(Plan& plan, const backends::DeviceProperties& device)
      : plan_(plan),
        kernel_streams_(std::min(device.streams, kMostKernelStreams)),
        clocks_(plan.steps.size(), static_cast<std::size_t>(kernel_streams_) + 2) {
    find_producers();
    std::int32_t next = kernel_streams_;
    if (device.copy_engines > 0 && overlaps_kernels(MemorySpace::device)) up_ = next++;
    if (device.copy_engines == 1 && up_ > 0) down_ = up_;
    else if (device.copy_engines > 0 && overlaps_kernels(MemorySpace::host)) down_ = next;
  }

  StreamOrder run() {
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      Step& step = plan_.steps[i];
      if (!goes_on_stream(step)) {
        if (step.kind == StepKind::alias) continue;
        for (const std::size_t producer : producers_[i]) {
          if (clocks_.is_enqueued(producer)) clocks_.host_waits(producer);
        }
        continue;
      }
      step.stream = stream_for(i);
      clocks_.enqueue(i, static_cast<std::size_t>(step.stream));
      for (const std::size_t producer : producers_[i]) {
        if (clocks_.is_enqueued(producer)) clocks_.wait(i, producer);
      }
      if (i != plan_.first_writing_step) continue;
      for (const std::int32_t tail : clocks_.tails()) {
        if (tail >= 0) clocks_.wait(i, static_cast<std::size_t>(tail));
      }
    }
    return renumbered();
  }

 private:
  // By step: those that make its operands. A view is made by what makes its source.
  void find_producers() {
    std::vector<std::int32_t> made_by(plan_.slots.size(), -1);
    producers_.resize(plan_.steps.size());
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      const Step& step = plan_.steps[i];
      for (const std::int32_t input : step.inputs) {
        const std::int32_t producer = input >= 0 ? made_by[static_cast<std::size_t>(input)] : -1;
        if (producer >= 0) producers_[i].push_back(static_cast<std::size_t>(producer));
      }
      std::ranges::sort(producers_[i]);
      const bool is_view = step.kind == StepKind::alias && !step.inputs.empty() && step.inputs[0] >= 0;
      for (std::int32_t k = 0; k < step.output_count; ++k)
        made_by[static_cast<std::size_t>(step.first_output + k)] =
            is_view ? made_by[static_cast<std::size_t>(step.inputs[0])] : static_cast<std::int32_t>(i);
    }
  }

  // Whether a copy to the space, and a kernel that runs before variables are written, need nothing of each other.
  bool overlaps_kernels(MemorySpace to) const {
    std::size_t seen = 0;
    for (std::size_t i = 0; i < plan_.steps.size() && seen < kMostCopies; ++i) {
      if (plan_.steps[i].kind != StepKind::copy || plan_.steps[i].space != to) continue;
      ++seen;
      const std::vector<bool> related = relatives(i);
      for (std::size_t k = 0; k < std::min(plan_.steps.size(), plan_.first_writing_step); ++k) {
        if (plan_.steps[k].kind == StepKind::kernel && goes_on_stream(plan_.steps[k]) && !related[k]) return true;
      }
    }
    return false;
  }

  // The steps that the step needs, and those that need it.
  std::vector<bool> relatives(std::size_t step) const {
    std::vector<bool> needed(plan_.steps.size(), false), needs(plan_.steps.size(), false);
    needed[step] = needs[step] = true;
    for (std::size_t i = step + 1; i-- > 0;) {
      if (!needed[i]) continue;
      for (const std::size_t producer : producers_[i]) needed[producer] = true;
    }
    for (std::size_t i = step + 1; i < plan_.steps.size(); ++i) {
      needs[i] = std::ranges::any_of(producers_[i], [&](std::size_t producer) { return needs[producer]; });
      needed[i] = needs[i];
    }
    return needed;
  }

  std::int32_t stream_for(std::size_t i) const {
    const Step& step = plan_.steps[i];
    if (i >= plan_.first_writing_step) return 0;
    if (step.kind == StepKind::copy) return std::max(step.space == MemorySpace::device ? up_ : down_, 0);
    const std::vector<std::int32_t>& tails = clocks_.tails();
    Known known = clocks_.host();
    std::int32_t going_on = -1;
    for (const std::size_t producer : producers_[i]) {
      if (!clocks_.is_enqueued(producer)) continue;
      merge(known, clocks_.known(producer));
      const auto stream = static_cast<std::int32_t>(clocks_.stream_of(producer));
      if (stream < kernel_streams_ && tails[clocks_.stream_of(producer)] == static_cast<std::int32_t>(producer))
        going_on = stream;
    }
    if (going_on >= 0) return going_on;
    std::int32_t oldest = 0;
    for (std::int32_t s = 0; s < kernel_streams_; ++s) {
      const std::int32_t tail = tails[static_cast<std::size_t>(s)];
      if (tail < 0 || clocks_.comes_after(known, static_cast<std::size_t>(tail))) return s;
      if (tail < tails[static_cast<std::size_t>(oldest)]) oldest = s;
    }
    return oldest;
  }

  // Gives the streams that are used the first numbers; stream 0 is always one of them.
  StreamOrder renumbered() {
    std::vector<std::int32_t> number(clocks_.tails().size(), -1);
    std::int32_t count = 1;
    number[0] = 0;
    for (std::size_t s = 1; s < number.size(); ++s) {
      if (clocks_.tails()[s] >= 0) number[s] = count++;
    }
    plan_.streams = count;
    if (count == 1) return {};
    std::vector<std::int32_t> known(plan_.steps.size() * static_cast<std::size_t>(count), 0);
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      if (!clocks_.is_enqueued(i)) continue;
      Step& step = plan_.steps[i];
      step.stream = number[static_cast<std::size_t>(step.stream)];
      for (std::size_t s = 0; s < number.size(); ++s) {
        if (number[s] >= 0)
          known[i * static_cast<std::size_t>(count) + static_cast<std::size_t>(number[s])] = clocks_.known(i)[s];
      }
    }
    return {plan_, std::move(known)};
  }

  Plan& plan_;
  const std::int32_t kernel_streams_;
  std::int32_t up_ = -1, down_ = -1;  // streams of copies; -1: stream 0
  std::vector<std::vector<std::size_t>> producers_;
  Clocks clocks_;
};

}  // namespace

StreamOrder::StreamOrder(const Plan& plan, std::vector<std::int32_t> known)
    : known_(std::move(known)), on_stream_(static_cast<std::size_t>(plan.streams)) {
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    if (goes_on_stream(plan.steps[i]))
      on_stream_[static_cast<std::size_t>(plan.steps[i].stream)].push_back(static_cast<std::int32_t>(i));
  }
}

std::int64_t StreamOrder::last_beside(const Plan& plan, std::size_t step) const {
  auto last = static_cast<std::int32_t>(step);
  const auto own = static_cast<std::size_t>(plan.steps[step].stream);
  for (std::size_t s = 0; s < on_stream_.size(); ++s) {
    if (s == own) continue;
    const auto after = std::ranges::partition_point(on_stream_[s], [&](std::int32_t other) {
      return known_[static_cast<std::size_t>(other) * on_stream_.size() + own] <= static_cast<std::int32_t>(step);
    });
    if (after != on_stream_[s].begin()) last = std::max(last, *std::prev(after));
  }
  return last;
}

Lifetimes StreamOrder::apart(const Plan& plan, Lifetimes lifetimes) const {
  // By slot and stream: the last step that uses it.
  std::vector<std::int32_t> users(plan.slots.size() * on_stream_.size(), -1);
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    if (!goes_on_stream(step)) continue;
    const auto use = [&](std::int32_t index) {
      if (index < 0) return;
      const Slot& slot = plan.slots[static_cast<std::size_t>(index)];
      const auto root = static_cast<std::size_t>(slot.place == Place::alias ? slot.source : index);
      users[root * on_stream_.size() + static_cast<std::size_t>(step.stream)] = static_cast<std::int32_t>(i);
    };
    for (const std::int32_t input : step.inputs) use(input);
    for (std::int32_t k = 0; k < step.output_count; ++k) use(step.first_output + k);
  }
  for (std::size_t root = 0; root < plan.slots.size(); ++root) {
    if (plan.slots[root].place != Place::arena || plan.slots[root].space != MemorySpace::device) continue;
    for (std::size_t s = 0; s < on_stream_.size(); ++s) {
      const std::int32_t user = users[root * on_stream_.size() + s];
      if (user >= 0)
        lifetimes.last[root] = std::max(lifetimes.last[root], last_beside(plan, static_cast<std::size_t>(user)));
    }
  }
  return lifetimes;
}

StreamOrder assign_streams(Plan& plan, const backends::DeviceProperties& device) {
  if (!plan.uses_device || device.streams < 2) return {};
  return Assigner(plan, device).run();
}

void find_stream_waits(Plan& plan) {
  if (plan.streams < 2) return;
  Clocks clocks(plan.steps.size(), static_cast<std::size_t>(plan.streams));
  std::vector<std::vector<ByteUse>> uses(plan.steps.size());
  std::vector<std::vector<std::size_t>> on_stream(static_cast<std::size_t>(plan.streams));
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    Step& step = plan.steps[i];
    for (const std::int32_t copy : step.awaited_copies) clocks.host_waits(static_cast<std::size_t>(copy));
    if (!goes_on_stream(step)) continue;
    uses[i] = uses_of(plan, step);
    clocks.enqueue(i, static_cast<std::size_t>(step.stream));
    // From the latest step of each stream back to what comes before anyway.
    std::vector<std::size_t> waits;
    for (const std::vector<std::size_t>& others : on_stream) {
      for (std::size_t k = others.size(); k-- > 0 && !clocks.comes_after(clocks.known(i), others[k]);) {
        if (i != plan.first_writing_step && !conflict(uses[others[k]], uses[i])) continue;
        waits.push_back(others[k]);
        break;
      }
    }
    // The latest ones first: they may imply others.
    std::ranges::sort(waits, std::greater<>());
    for (const std::size_t wait : waits) {
      if (clocks.comes_after(clocks.known(i), wait)) continue;
      clocks.wait(i, wait);
      step.stream_waits.push_back(static_cast<std::int32_t>(wait));
      plan.steps[wait].is_stream_awaited = true;
    }
    on_stream[static_cast<std::size_t>(step.stream)].push_back(i);
  }
}

}  // namespace tessera::plan
