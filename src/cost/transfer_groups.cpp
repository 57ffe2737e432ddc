#include "cost/transfer_groups.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace tessera::cost {
namespace {

// A schedule of the transfers and computations of all stages before some stage.
struct State {
  double transferred = 0, computed = 0;  // seconds until both have ended
  std::size_t from = 0, parent = 0;      // where its last group begins; the state there
};

class Search {
 public:
  Search(std::span<const TransferStage> stages, double overhead)
      : stages_(stages), overhead_(overhead), transfer_(stages.size() + 1), compute_(stages.size() + 1) {
    for (std::size_t i = 0; i < stages.size(); ++i) {
      transfer_[i + 1] = transfer_[i] + stages[i].transfer_seconds;
      compute_[i + 1] = compute_[i] + stages[i].compute_seconds;
    }
  }

  // A grouping that takes less than `best`, or nothing.
  std::vector<std::size_t> run(double best, double good_enough) {
    const std::size_t count = stages_.size();
    states_.assign(count + 1, {});
    states_[0].push_back({});
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t s = 0; s < states_[i].size(); ++s) extend(i, s, best);
      if (!states_[count].empty() && best <= good_enough) break;
    }
    if (states_[count].empty()) return {};
    const auto fastest = std::ranges::min_element(states_[count], {}, &State::computed);
    return ends_of(count, static_cast<std::size_t>(fastest - states_[count].begin()));
  }

 private:
  // A lower bound on the total time of any grouping that continues from a state at `stage`.
  double bound(const State& state, std::size_t stage) const {
    const std::size_t count = stages_.size();
    if (stage == count) return state.computed;
    const double transfers = state.transferred + overhead_ + transfer_[count] - transfer_[stage];
    return std::max(state.computed + compute_[count] - compute_[stage], transfers + stages_.back().compute_seconds);
  }

  void extend(std::size_t begin, std::size_t index, double& best) {
    for (std::size_t end = begin + 1; end <= stages_.size(); ++end) {
      const State& from = states_[begin][index];
      State next{from.transferred + overhead_ + transfer_[end] - transfer_[begin], 0, begin, index};
      next.computed = std::max(next.transferred, from.computed) + compute_[end] - compute_[begin];
      if (bound(next, end) >= best) {
        // Stops when the transfer of the group alone makes it too slow, because that of longer groups takes longer
        // still.
        if (next.transferred + compute_[stages_.size()] - compute_[begin] >= best) break;
        continue;
      }
      if (insert(end, next) && end == stages_.size()) best = next.computed;
    }
  }

  bool insert(std::size_t stage, const State& state) {
    std::vector<State>& others = states_[stage];
    const auto beats = [](const State& a, const State& b) {
      return a.transferred <= b.transferred && a.computed <= b.computed;
    };
    if (std::ranges::any_of(others, [&](const State& other) { return beats(other, state); })) return false;
    others.push_back(state);  // dominated states may be parents of others, so they stay
    return true;
  }

  std::vector<std::size_t> ends_of(std::size_t stage, std::size_t index) const {
    std::vector<std::size_t> ends;
    while (stage > 0) {
      const State& state = states_[stage][index];
      ends.insert(ends.begin(), stage);
      stage = state.from;
      index = state.parent;
    }
    return ends;
  }

  std::span<const TransferStage> stages_;
  const double overhead_;
  std::vector<double> transfer_, compute_;  // sums of the stages before
  std::vector<std::vector<State>> states_;  // by the stage before which they end
};

// Groups whose transfers take about `seconds` each.
std::vector<std::size_t> even_groups(std::span<const TransferStage> stages, double seconds) {
  std::vector<std::size_t> ends;
  double group = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    group += stages[i].transfer_seconds;
    if (group < seconds && i + 1 < stages.size()) continue;
    ends.push_back(i + 1);
    group = 0;
  }
  return ends;
}

}  // namespace

double pipelined_seconds(std::span<const TransferStage> stages, std::span<const std::size_t> ends,
                         double overhead_seconds) {
  double transferred = 0, computed = 0;
  std::size_t stage = 0;
  for (const std::size_t end : ends) {
    double compute = 0;
    transferred += overhead_seconds;
    for (; stage < end; ++stage) {
      transferred += stages[stage].transfer_seconds;
      compute += stages[stage].compute_seconds;
    }
    computed = std::max(transferred, computed) + compute;
  }
  return computed;
}

double pipelined_lower_bound(std::span<const TransferStage> stages, double overhead_seconds) {
  if (stages.empty()) return 0;
  double transfer = 0, compute = 0;
  for (const TransferStage& stage : stages) {
    transfer += stage.transfer_seconds;
    compute += stage.compute_seconds;
  }
  return overhead_seconds +
         std::max(transfer + stages.back().compute_seconds, stages.front().transfer_seconds + compute);
}

std::vector<std::size_t> choose_transfer_groups(std::span<const TransferStage> stages, double overhead_seconds,
                                                double tolerance) {
  if (stages.empty()) return {};
  const double good_enough = pipelined_lower_bound(stages, overhead_seconds) * (1 + tolerance);
  double total = 0, best_seconds = std::numeric_limits<double>::infinity();
  for (const TransferStage& stage : stages) total += stage.transfer_seconds;
  std::vector<std::size_t> best;
  for (double parts = 1; parts <= 4.0 * static_cast<double>(stages.size()); parts *= 2) {
    std::vector<std::size_t> ends = even_groups(stages, total / parts);
    const double seconds = pipelined_seconds(stages, ends, overhead_seconds);
    if (seconds >= best_seconds) continue;
    best_seconds = seconds;
    best = std::move(ends);
  }
  if (best_seconds <= good_enough) return best;
  std::vector<std::size_t> found = Search(stages, overhead_seconds).run(best_seconds / (1 + tolerance), good_enough);
  return found.empty() ? best : found;
}

}  // namespace tessera::cost
