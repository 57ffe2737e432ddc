// Chooses which weights to transfer together, so that computing a model begins before all of its weights have arrived
// (Bai, Zhang, Zhu, Jin, "PipeSwitch: Fast Pipelined Context Switching for Deep Learning Applications", OSDI 2020).
//
// A model is a sequence of stages. A stage is the transfer of some weights, followed by the computation that can begin
// once these and all earlier weights have arrived. A group is a run of stages whose weights arrive together. Each group
// costs a fixed overhead (calls, wake-ups), so few groups transfer faster, and many groups start computing earlier.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tessera::cost {

struct TransferStage {
  double transfer_seconds = 0, compute_seconds = 0;
};

// The time at which the last stage has computed, if transfers and computing begin at 0. `ends`: for each group the
// index behind its last stage, ascending; the last one is the number of stages. With T the end of a group's transfer
// and E that of its computing: T(g) = T(g-1) + overhead + sum of its transfers, E(g) = max(T(g), E(g-1)) + sum of its
// computing.
double pipelined_seconds(std::span<const TransferStage> stages, std::span<const std::size_t> ends,
                         double overhead_seconds);

// A lower bound on the time of every grouping: all transfers in one group followed by the last stage's computing, or
// the first transfer followed by all computing, whichever is longer.
double pipelined_lower_bound(std::span<const TransferStage> stages, double overhead_seconds);

// The `ends` of a grouping whose time exceeds the least possible by at most `tolerance` (0.01: one per cent). Extends
// groupings stage by stage, keeps those that end at the same stage only if no other is better in both transfer and
// computing, and drops those whose lower bound is no better than the best grouping known.
std::vector<std::size_t> choose_transfer_groups(std::span<const TransferStage> stages, double overhead_seconds,
                                                double tolerance = 0.01);

}  // namespace tessera::cost
