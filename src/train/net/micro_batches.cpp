#include "train/net/micro_batches.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "ops/op_table.h"

namespace tessera::train {
namespace {

using ir::ValueId;
using ops::Term;

constexpr const char *kRun = "train/run", *kRows = "train/rows", *kSums = "/gradient_sums";

// The bytes of gradients that ranks exchange at once: little at first, so that the exchange begins early in the
// backward pass, and then enough to hide what an exchange costs by itself.
constexpr std::int64_t kFirstBucketBytes = std::int64_t{1} << 20, kBucketBytes = std::int64_t{25} << 20;

}  // namespace

MicroBatchGraph::MicroBatchGraph(ops::GraphBuilder& builder, std::int64_t total, const RankShare& share)
    : builder_(builder),
      batches_{total, share.rank, share.ranks},
      communicator_(share.communicator),
      block_(batches_.block()) {
  if (block_.count == 1) {
    run_ = whole(0);
    return;
  }
  ir::Graph& graph = builder_.graph();
  run_ = Term(builder_, graph.add_variable(kRun, Tensor::scalar(std::int64_t{0})));
  last_ = run_->equals(whole(block_.count - 1));
  graph.set_variable_update(kRun, last_->choose(whole(0), *run_ + whole(1)).id());
}

Term MicroBatchGraph::whole(std::int64_t value) const {
  return {builder_, builder_.constant(Tensor::scalar(value))};
}

ir::Attributes MicroBatchGraph::attributes(const std::string& exchange) const {
  ir::Attributes attributes{{"total", batches_.total}, {"rank", batches_.rank}, {"ranks", batches_.ranks}};
  if (exchange.empty()) return attributes;
  attributes.emplace("communicator", communicator_);
  attributes.emplace("exchange", exchange);
  return attributes;
}

// The parameters whose gradients are exchanged together, in the order in which the backward pass completes them.
std::vector<std::vector<std::size_t>> MicroBatchGraph::buckets(const TrainedParameters& trained) const {
  const ir::Graph& graph = builder_.graph();
  std::vector<std::size_t> position(graph.value_count(), 0), order(trained.gradients.size());
  std::size_t place = 0;
  for (const ir::NodeId id : graph.order()) {
    ++place;
    for (const ValueId output : graph.node(id).outputs) {
      if (output.valid()) position[static_cast<std::size_t>(output.index)] = place;
    }
  }
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, {}, [&](std::size_t i) { return position[static_cast<std::size_t>(trained.gradients[i].index)]; });
  std::vector<std::vector<std::size_t>> buckets;
  std::int64_t bytes = 0;
  for (const std::size_t i : order) {
    const std::int64_t most = buckets.size() < 2 ? kFirstBucketBytes : kBucketBytes;
    if (buckets.empty() || bytes >= most) {
      buckets.emplace_back();
      bytes = 0;
    }
    buckets.back().push_back(i);
    bytes += byte_count(DType::f32, *graph.value(trained.values[i]).type.shape());
  }
  return buckets;
}

void MicroBatchGraph::sum_gradients(TrainedParameters& trained) {
  ir::Graph& graph = builder_.graph();
  const std::vector<std::vector<std::size_t>> all = buckets(trained);
  for (std::size_t bucket = 0; bucket < all.size(); ++bucket) {
    std::vector<ValueId> operands{run_->id()};
    for (const std::size_t i : all[bucket]) {
      const Term gradient(builder_, trained.gradients[i]);
      if (block_.count == 1) {
        operands.push_back(gradient.unsqueeze({0}).id());
        continue;
      }
      Shape shape = *graph.value(trained.values[i]).type.shape();
      shape.insert(shape.begin(), static_cast<std::int64_t>(block_.slots()));
      const std::string name = trained.names[i] + kSums;
      const ValueId sums = graph.add_variable(name, zero_tensor(DType::f32, shape));
      operands.push_back(builder_.add("tessera::AddMicroBatch", {run_->id(), gradient.id(), sums}, attributes("")));
      graph.set_variable_update(name, operands.back());
    }
    const std::vector<ValueId> totals = builder_.add_multi("tessera::SumOverRanks", operands, all[bucket].size(),
                                                           attributes(fmt::format("gradients {}", bucket)));
    for (std::size_t k = 0; k < totals.size(); ++k) trained.gradients[all[bucket][k]] = totals[k];
  }
}

void MicroBatchGraph::separate_statistics(const std::vector<RunningStatistic>& statistics) {
  ir::Graph& graph = builder_.graph();
  std::vector<ValueId> zeros;
  for (const RunningStatistic& each : statistics) {
    const Shape shape = *graph.value(each.value).type.shape();
    zeros.push_back(builder_.constant(zero_tensor(graph.value(each.value).type.dtype, shape)));
    statistics_.push_back(
        {Term(builder_, each.value), Term(builder_, each.next), each.momentum, element_count(shape), 0});
  }
  std::vector<ValueId> replacements(graph.value_count());
  for (std::size_t i = 0; i < zeros.size(); ++i)
    replacements[static_cast<std::size_t>(statistics[i].value.index)] = zeros[i];
  graph.replace_uses(replacements);
}

void MicroBatchGraph::gather_rows(Term loss) {
  const auto flat = [](Term term, std::int64_t elements) { return term.reshape(term.integers({1, elements})); };
  std::vector<Term> parts;
  std::int64_t columns = 1;
  const Term first = flat(loss.cast(DType::f32), 1);
  for (Statistic& each : statistics_) {
    each.column = columns;
    columns += each.elements;
    parts.push_back(flat(each.part.cast(DType::f32), each.elements));
  }
  Term rows = parts.empty() ? first : first.combine("Concat", parts, {{"axis", std::int64_t{1}}});
  if (last_) {
    ir::Graph& graph = builder_.graph();
    Tensor numbers(DType::i64, {block_.count, 1});
    std::iota(numbers.mutable_data<std::int64_t>(), numbers.mutable_data<std::int64_t>() + block_.count, 0);
    const Term is_this = Term(builder_, builder_.constant(numbers)).equals(*run_);
    const Term before(builder_, graph.add_variable(kRows, zero_tensor(DType::f32, {block_.count, columns})));
    rows = is_this.choose(rows, before);
    graph.set_variable_update(kRows, rows.id());
  }
  rows_ = Term(builder_, builder_.add("tessera::GatherOverRanks", {run_->id(), rows.id()}, attributes("losses")));
  losses_ = rows_->combine("Slice", {rows_->integers({0}), rows_->integers({1}), rows_->integers({1})})
                .reshape(rows_->integers({batches_.total}));
}

// The recurrence running = momentum * running + part, over all micro-batches, in closed form: a weighted sum.
Term MicroBatchGraph::folded(std::size_t i) const {
  const Statistic& each = statistics_[i];
  const Term parts = rows_->combine(
      "Slice", {rows_->integers({each.column}), rows_->integers({each.column + each.elements}), rows_->integers({1})});
  Tensor weights(DType::f32, {batches_.total, 1});
  for (std::int64_t batch = 0; batch < batches_.total; ++batch)
    weights.mutable_data<float>()[batch] =
        static_cast<float>(std::pow(each.momentum, static_cast<double>(batches_.total - 1 - batch)));
  const Term sum = (parts * Term(builder_, builder_.constant(weights)))
                       .sum({0}, false)
                       .cast(each.value.dtype())
                       .reshape_like(each.value);
  return each.value * std::pow(each.momentum, static_cast<double>(batches_.total)) + sum;
}

bool is_within_update(const std::string& variable) {
  return variable == kRun || variable == kRows || variable.ends_with(kSums);
}

}  // namespace tessera::train
