// The sums over micro-batches and ranks (ops/training/micro_batch_sums.h). All devices that are hosts use these
// kernels: they move bytes and add, and the order of the additions is what they are about.
#include "ops/training/micro_batch_sums.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backends/asynchronous.h"
#include "backends/reference/kernels/training/kernels.h"
#include "base/communicator.h"
#include "base/error.h"
#include "base/numbers/float_state.h"

namespace tessera::backends::reference {
namespace {

using ops::MicroBatches;

constexpr std::int64_t kSumGrain = 1 << 14;

std::int64_t run_of(const KernelContext& context, std::int64_t count) {
  const std::int64_t run = context.input(0).data<std::int64_t>()[0];
  require(run >= 0 && run < count, ErrorKind::failed, "the run is number {}, but this rank has {} runs in a step", run,
          count);
  return run;
}

template <typename T>
void add_micro_batch_as(KernelContext& context) {
  const base::SumBlock block = ops::micro_batches_of(context).block();
  const base::SumAction action = block.actions()[static_cast<std::size_t>(run_of(context, block.count))];
  const Tensor &x = context.input(1), &before = context.input(2);
  Tensor& after = context.output(0);
  const std::int64_t elements = x.elements();
  const T *given = x.data<T>(), *sums = before.data<T>();
  T* const stored = after.mutable_data<T>();
  if (elements == 0) return;
  if (stored != sums) std::memcpy(stored, sums, static_cast<std::size_t>(before.bytes()));
  context.parallel_for(elements, kSumGrain, [&](std::int64_t begin, std::int64_t end) {
    T* const to = stored + static_cast<std::int64_t>(action.stored) * elements;
    constexpr std::int64_t kPart = 512;
    std::array<T, kPart> carried;
    for (std::int64_t i = begin; i < end; i += kPart) {
      const std::int64_t part = std::min(kPart, end - i);
      std::copy_n(given + i, part, carried.data());
      for (const std::size_t slot : action.added) {
        const T* const left = stored + static_cast<std::int64_t>(slot) * elements + i;
        for (std::int64_t k = 0; k < part; ++k) carried[static_cast<std::size_t>(k)] += left[k];
      }
      std::copy_n(carried.data(), part, to + i);
    }
  });
}

// Additions of sums by number, the right one to the left one, and the number of the one that holds the result.
struct SumProgram {
  std::vector<std::pair<std::size_t, std::size_t>> additions;
  std::size_t result = 0;

  SumProgram(const std::vector<base::SumNode>& nodes, std::int64_t total) {
    result = base::fold_sums(nodes, total,
                             [&](std::size_t left, std::size_t right) { additions.emplace_back(left, right); });
  }
};

// The work of a collective: complete when its exchanges are.
class CollectiveWork final : public PendingWork {
 public:
  CollectiveWork() { done_->complete(nullptr); }
  CollectiveWork(std::shared_ptr<base::Communicator> communicator, std::shared_ptr<base::Completion> done)
      : communicator_(std::move(communicator)), done_(std::move(done)) {}
  ~CollectiveWork() override {
    if (communicator_ != nullptr && !is_complete_) communicator_->stop("its step ended before its exchanges did");
  }
  bool wait_for(std::chrono::nanoseconds patience) override {
    try {
      is_complete_ = done_->wait_for(patience);
    } catch (...) {
      is_complete_ = true;
      throw;
    }
    return is_complete_;
  }

 private:
  std::shared_ptr<base::Communicator> communicator_;
  std::shared_ptr<base::Completion> done_ = std::make_shared<base::Completion>();
  bool is_complete_ = false;
};

// The elements of all tensors of a node, end to end, and the part of them that each rank adds up.
template <typename T>
struct SumParts {
  std::vector<std::int64_t> elements;  // of each tensor's total
  std::int64_t whole = 0, ranks = 1;

  // Parts begin at cache lines.
  std::int64_t begin_of(std::int64_t rank) const {
    constexpr std::int64_t kLine = 64 / static_cast<std::int64_t>(sizeof(T));
    return rank == ranks ? whole : whole * rank / ranks / kLine * kLine;
  }
  std::int64_t size_of(std::int64_t rank) const { return begin_of(rank + 1) - begin_of(rank); }
};

// One sum that is under way, in the scratch memory of its step: the sums of this rank, rank by rank as they are sent;
// the sums of all ranks as far as this one adds them; and the totals.
template <typename T>
struct SumUnderWay : std::enable_shared_from_this<SumUnderWay<T>> {
  MicroBatches batches;
  SumParts<T> parts;
  std::string exchange;
  std::shared_ptr<base::Communicator> communicator;
  std::shared_ptr<base::Completion> done = std::make_shared<base::Completion>();
  std::vector<T*> outputs;
  T *sent = nullptr, *received = nullptr, *totals = nullptr;
  std::uint32_t float_state = base::float_state();

  static std::span<const std::byte> bytes_of(const T* begin, std::int64_t count) {
    return std::as_bytes(std::span(begin, static_cast<std::size_t>(count)));
  }
  static std::span<std::byte> room_of(T* begin, std::int64_t count) {
    return std::as_writable_bytes(std::span(begin, static_cast<std::size_t>(count)));
  }

  void begin() {
    base::Exchange sums{exchange, {}, {}, {}};
    const T* from = sent;
    T* to = received;
    const auto own = static_cast<std::int64_t>(batches.block().nodes().size());
    for (std::int64_t rank = 0; rank < batches.ranks; ++rank) {
      const std::int64_t given = own * parts.size_of(rank);
      const std::int64_t taken =
          static_cast<std::int64_t>(batches.block_of(rank).nodes().size()) * parts.size_of(batches.rank);
      sums.sends.push_back(bytes_of(from, given));
      sums.receives.push_back(room_of(to, taken));
      from += given;
      to += taken;
    }
    sums.then = [self = this->shared_from_this()](std::exception_ptr error) {
      if (error) self->done->complete(std::move(error));
      else self->add_and_send();
    };
    communicator->begin(std::move(sums));
  }

  // Adds what all ranks sent of this rank's part, and sends the totals to all ranks.
  void add_and_send() {
    const std::uint32_t before = base::float_state();
    base::set_float_state(float_state);
    const std::int64_t part = parts.size_of(batches.rank);
    std::vector<base::SumNode> nodes;
    for (std::int64_t rank = 0; rank < batches.ranks; ++rank) {
      for (const base::SumNode& node : batches.block_of(rank).nodes()) nodes.push_back(node);
    }
    const auto at = [&](std::size_t i) { return received + static_cast<std::int64_t>(i) * part; };
    const SumProgram program(nodes, batches.total);
    for (const auto& [left, right] : program.additions) {
      T* const sum = at(left);
      const T* const other = at(right);
      for (std::int64_t i = 0; i < part; ++i) sum[i] += other[i];
    }
    base::set_float_state(before);
    base::Exchange results{exchange + " totals", {}, {}, {}};
    for (std::int64_t rank = 0; rank < batches.ranks; ++rank) {
      results.sends.push_back(bytes_of(at(program.result), part));
      results.receives.push_back(room_of(totals + parts.begin_of(rank), parts.size_of(rank)));
    }
    results.then = [self = this->shared_from_this()](std::exception_ptr error) {
      if (!error) self->write_outputs();
      self->done->complete(std::move(error));
    };
    communicator->begin(std::move(results));
  }

  void write_outputs() const {
    const T* from = totals;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      std::copy_n(from, parts.elements[i], outputs[i]);
      from += parts.elements[i];
    }
  }
};

template <typename T>
class SumOverRanks final : public AsynchronousKernel {
 public:
  explicit SumOverRanks(const ops::NodeView& view) : batches_(ops::micro_batches_of(view)) {
    parts_.ranks = batches_.ranks;
    for (std::size_t i = 0; i + 1 < view.input_count(); ++i) {
      parts_.elements.push_back(view.output(i).elements());
      parts_.whole += parts_.elements.back();
    }
  }

  std::int64_t scratch_bytes() const override {
    if (batches_.ranks == 1) return 0;
    return (sent_elements() + received_elements() + parts_.whole) * static_cast<std::int64_t>(sizeof(T));
  }

  std::unique_ptr<PendingWork> begin(KernelContext& context) const override {
    const base::SumBlock block = batches_.block();
    if (run_of(context, block.count) + 1 < block.count) {
      for (std::size_t i = 0; i < context.output_count(); ++i) {
        if (context.output(i).bytes() > 0)
          std::memset(context.output(i).mutable_raw(), 0, static_cast<std::size_t>(context.output(i).bytes()));
      }
      return std::make_unique<CollectiveWork>();
    }
    if (batches_.ranks == 1) {
      for (std::size_t i = 0; i < context.output_count(); ++i) add_here(context, i);
      return std::make_unique<CollectiveWork>();
    }
    return exchange(context);
  }

 private:
  std::int64_t sent_elements() const {
    return static_cast<std::int64_t>(batches_.block().nodes().size()) * parts_.whole;
  }
  std::int64_t received_elements() const {
    std::int64_t nodes = 0;
    for (std::int64_t rank = 0; rank < batches_.ranks; ++rank)
      nodes += static_cast<std::int64_t>(batches_.block_of(rank).nodes().size());
    return nodes * parts_.size_of(batches_.rank);
  }

  // The total of one tensor, where one rank has all micro-batches.
  void add_here(KernelContext& context, std::size_t tensor) const {
    const std::vector<base::SumNode> nodes = batches_.block().nodes();
    const SumProgram program(nodes, batches_.total);
    const T* const sums = context.input(tensor + 1).data<T>();
    T* const total = context.output(tensor).mutable_data<T>();
    const std::int64_t elements = parts_.elements[tensor];
    if (elements == 0) return;
    context.parallel_for(elements, kSumGrain, [&](std::int64_t begin, std::int64_t end) {
      constexpr std::int64_t kPart = 256;
      std::vector<T> values(nodes.size() * kPart);
      const auto at = [&](std::size_t i) { return values.data() + static_cast<std::int64_t>(i) * kPart; };
      for (std::int64_t i = begin; i < end; i += kPart) {
        const std::int64_t part = std::min(kPart, end - i);
        for (std::size_t n = 0; n < nodes.size(); ++n)
          std::copy_n(sums + static_cast<std::int64_t>(nodes[n].slot) * elements + i, part, at(n));
        for (const auto& [left, right] : program.additions) {
          for (std::int64_t k = 0; k < part; ++k) at(left)[k] += at(right)[k];
        }
        std::copy_n(at(program.result), part, total + i);
      }
    });
  }

  std::unique_ptr<PendingWork> exchange(KernelContext& context) const {
    const auto work = std::make_shared<SumUnderWay<T>>();
    work->batches = batches_;
    work->parts = parts_;
    work->exchange = context.text("exchange");
    work->communicator = base::find_communicator(context.integer("communicator"));
    require(work->communicator->size() == batches_.ranks && work->communicator->rank() == batches_.rank,
            ErrorKind::failed, "the sum is that of rank {} of {}, but this process is rank {} of {}", batches_.rank,
            batches_.ranks, work->communicator->rank(), work->communicator->size());
    work->sent = reinterpret_cast<T*>(context.scratch());
    work->received = work->sent + sent_elements();
    work->totals = work->received + received_elements();
    for (std::size_t i = 0; i < context.output_count(); ++i)
      work->outputs.push_back(context.output(i).mutable_data<T>());
    pack(context, work->sent);
    work->begin();
    return std::make_unique<CollectiveWork>(work->communicator, work->done);
  }

  // Writes, for each rank in turn, its part of each of this rank's sums.
  void pack(KernelContext& context, T* to) const {
    const std::vector<base::SumNode> nodes = batches_.block().nodes();
    for (std::int64_t rank = 0; rank < batches_.ranks; ++rank) {
      const std::int64_t begin = parts_.begin_of(rank), end = begin + parts_.size_of(rank);
      for (const base::SumNode& node : nodes) {
        std::int64_t offset = 0;  // of the tensor among all elements
        for (std::size_t i = 0; i < parts_.elements.size(); ++i) {
          const std::int64_t elements = parts_.elements[i];
          const std::int64_t first = std::clamp<std::int64_t>(begin - offset, 0, elements);
          const std::int64_t last = std::clamp<std::int64_t>(end - offset, 0, elements);
          const T* const sums = context.input(i + 1).data<T>() + static_cast<std::int64_t>(node.slot) * elements;
          to = std::copy(sums + first, sums + last, to);
          offset += elements;
        }
      }
    }
  }

  const MicroBatches batches_;
  SumParts<T> parts_;
};

class GatherOverRanks final : public AsynchronousKernel {
 public:
  explicit GatherOverRanks(const ops::NodeView& view) : batches_(ops::micro_batches_of(view)) {}

  std::unique_ptr<PendingWork> begin(KernelContext& context) const override {
    const base::SumBlock block = batches_.block();
    const Tensor& rows = context.input(1);
    Tensor& all = context.output(0);
    if (all.bytes() == 0) return std::make_unique<CollectiveWork>();
    if (run_of(context, block.count) + 1 < block.count) {
      std::memset(all.mutable_raw(), 0, static_cast<std::size_t>(all.bytes()));
      return std::make_unique<CollectiveWork>();
    }
    if (batches_.ranks == 1) {
      std::memcpy(all.mutable_raw(), rows.raw(), static_cast<std::size_t>(rows.bytes()));
      return std::make_unique<CollectiveWork>();
    }
    const std::shared_ptr<base::Communicator> communicator = base::find_communicator(context.integer("communicator"));
    const auto done = std::make_shared<base::Completion>();
    const std::size_t row = static_cast<std::size_t>(all.bytes() / batches_.total);
    auto* const to = static_cast<std::byte*>(all.mutable_raw());
    base::Exchange exchange{context.text("exchange"), {}, {}, {}};
    for (std::int64_t rank = 0; rank < batches_.ranks; ++rank) {
      const base::SumBlock other = batches_.block_of(rank);
      exchange.sends.emplace_back(static_cast<const std::byte*>(rows.raw()), static_cast<std::size_t>(rows.bytes()));
      exchange.receives.emplace_back(to + static_cast<std::size_t>(other.first) * row,
                                     static_cast<std::size_t>(other.count) * row);
    }
    exchange.then = [done](std::exception_ptr error) { done->complete(std::move(error)); };
    communicator->begin(std::move(exchange));
    return std::make_unique<CollectiveWork>(communicator, done);
  }

 private:
  const MicroBatches batches_;
};

}  // namespace

void add_micro_batch(KernelContext& context) {
  if (context.input(1).dtype() == DType::f64) add_micro_batch_as<double>(context);
  else add_micro_batch_as<float>(context);
}

KernelPointer make_sum_over_ranks(const ops::NodeView& view, WeightStore&) {
  if (view.input(1).dtype == DType::f64) return std::make_unique<SumOverRanks<double>>(view);
  return std::make_unique<SumOverRanks<float>>(view);
}

KernelPointer make_gather_over_ranks(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<GatherOverRanks>(view);
}

}  // namespace tessera::backends::reference
