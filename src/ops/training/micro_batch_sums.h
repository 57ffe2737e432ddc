// Sums over the micro-batches of a training step, in the order of one binary tree (base/numbers/sum_tree.h), and what
// ranks exchange for them. `total` micro-batches make a step; rank `rank` of `ranks` runs the contiguous block
// base::SumBlock::of_rank, one run each, and `run` counts its runs from 0.
//
//   tessera::AddMicroBatch(run, x, sums) -> sums    sums: [slots, shape of x]; adds x as micro-batch `run` of the block
//   tessera::SumOverRanks(run, sums…) -> totals     the sums over all micro-batches on every rank: [shape of x] each
//   tessera::GatherOverRanks(run, rows) -> all      rows: [block's count, …] -> [total, …], by micro-batch
//
// The last two are collectives: in the last run of the block all ranks exchange what they have, under the exchange's
// name `exchange` and over the communicator `communicator` (base/communicator.h; 0 for one rank). In earlier runs they
// give zeros.
#pragma once

#include "base/numbers/sum_tree.h"
#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef add_micro_batch, sum_over_ranks, gather_over_ranks;

// The attributes of all three: total, rank, ranks.
struct MicroBatches {
  std::int64_t total = 1, rank = 0, ranks = 1;
  base::SumBlock block() const { return base::SumBlock::of_rank(total, rank, ranks); }
  base::SumBlock block_of(std::int64_t other) const { return base::SumBlock::of_rank(total, other, ranks); }
};
MicroBatches micro_batches_of(const AttributeReader& reader);

}  // namespace tessera::ops
