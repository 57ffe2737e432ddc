#include "ops/training/micro_batch_sums.h"

#include "ops/core/signatures.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;

// More micro-batches or ranks than any training has; what an attribute states bounds the work of a kernel.
constexpr std::int64_t kMostMicroBatches = std::int64_t{1} << 20;

MicroBatches checked_micro_batches(const InferContext& context) {
  const MicroBatches given = micro_batches_of(context);
  context.check(given.total >= 1 && given.total <= kMostMicroBatches, "total is {}, expected 1 to {}", given.total,
                kMostMicroBatches);
  context.check(given.ranks >= 1 && given.ranks <= given.total, "ranks is {}, expected 1 to {} (total)", given.ranks,
                given.total);
  context.check(given.rank >= 0 && given.rank < given.ranks, "rank is {}, expected 0 to {}", given.rank,
                given.ranks - 1);
  const ir::Dims* run = context.dims(0);
  context.check(run == nullptr || run->empty(), "'run' has shape {}, expected a scalar",
                run != nullptr ? to_string(*run) : "");
  return given;
}

// Checks dimension 0 of input i and returns the other ones.
std::optional<ir::Dims> without_first(const InferContext& context, std::size_t i, std::int64_t first) {
  const ir::Dims* dims = context.dims(i);
  if (dims == nullptr) return std::nullopt;
  context.check(!dims->empty() && (*dims)[0].may_equal(ir::Dim(first)), "input {} has shape {}, expected [{}, …]", i,
                to_string(*dims), first);
  return ir::Dims(dims->begin() + 1, dims->end());
}

void infer_add_micro_batch(InferContext& context) {
  const MicroBatches given = checked_micro_batches(context);
  const auto rest = without_first(context, 2, static_cast<std::int64_t>(given.block().slots()));
  const ir::Dims* x = context.dims(1);
  if (rest && x != nullptr) {
    bool fits = rest->size() == x->size();
    for (std::size_t axis = 0; fits && axis < x->size(); ++axis) fits = (*rest)[axis].may_equal((*x)[axis]);
    context.check(fits, "x has shape {}, but sums hold {}", to_string(*x), to_string(*rest));
  }
  context.set_output(0, context.input(2));
}

void infer_sum_over_ranks(InferContext& context) {
  const MicroBatches given = checked_micro_batches(context);
  for (std::size_t i = 1; i < context.input_count(); ++i) {
    const auto rest = without_first(context, i, static_cast<std::int64_t>(given.block().slots()));
    if (rest) context.set_output(i - 1, context.dtype(i), *rest);
    else context.set_output_unknown_rank(i - 1, context.dtype(i));
  }
}

void infer_gather_over_ranks(InferContext& context) {
  const MicroBatches given = checked_micro_batches(context);
  auto rest = without_first(context, 1, given.block().count);
  if (!rest) return context.set_output_unknown_rank(0, context.dtype(1));
  rest->insert(rest->begin(), ir::Dim(given.total));
  context.set_output(0, context.dtype(1), std::move(*rest));
}

double add_operations(const NodeView& view) {
  return 2 * static_cast<double>(view.input(1).elements());  // a leaf has at most one parent that is added in full
}

double sum_operations(const NodeView& view) {
  double elements = 0;
  for (std::size_t i = 1; i < view.input_count(); ++i) elements += static_cast<double>(view.input(i).elements());
  return elements;
}

double no_operations(const NodeView&) {
  return 0;
}

std::vector<AttributeSpec> block_attributes(bool exchanges) {
  std::vector<AttributeSpec> specs{{"total", AttributeKind::integer, std::nullopt, true},
                                   {"rank", AttributeKind::integer, ir::Attribute(std::int64_t{0})},
                                   {"ranks", AttributeKind::integer, ir::Attribute(std::int64_t{1})}};
  if (!exchanges) return specs;
  specs.push_back({"communicator", AttributeKind::integer, ir::Attribute(std::int64_t{0})});
  specs.push_back({"exchange", AttributeKind::text, ir::Attribute(std::string())});
  return specs;
}

}  // namespace

MicroBatches micro_batches_of(const AttributeReader& reader) {
  return {reader.integer("total"), reader.integer("rank"), reader.integer("ranks")};
}

const OpDef add_micro_batch{
    .name = "tessera::AddMicroBatch",
    .since = 1,
    .inputs = {{"run", types::i64}, {"x", types::f32_and_f64, "T"}, {"sums", types::f32_and_f64, "T"}},
    .outputs = {{"added", types::f32_and_f64, "T"}},
    .attributes = block_attributes(false),
    .infer = infer_add_micro_batch,
    .operations = add_operations,
};

const OpDef sum_over_ranks{
    .name = "tessera::SumOverRanks",
    .since = 1,
    .inputs = {{"run", types::i64}, {"sums", types::f32_and_f64, "T", variadic}},
    .outputs = {{"totals", types::f32_and_f64, "T", variadic}},
    .attributes = block_attributes(true),
    .infer = infer_sum_over_ranks,
    .operations = sum_operations,
};

const OpDef gather_over_ranks{
    .name = "tessera::GatherOverRanks",
    .since = 1,
    .inputs = {{"run", types::i64}, {"rows", types::f32_and_f64, "T"}},
    .outputs = {{"all", types::f32_and_f64, "T"}},
    .attributes = block_attributes(true),
    .infer = infer_gather_over_ranks,
    .operations = no_operations,
};

}  // namespace tessera::ops
