#include "ops/attention/grouped_cache.h"

#include "base/numbers/checked.h"

namespace tessera::ops {

using ir::ValueId;

GroupedCache::GroupedCache(GraphBuilder& builder, const GroupedCacheSizes& sizes, ValueId lengths, ValueId total)
    : builder_(builder), sizes_(sizes), length_(base::checked_add(sizes.past, sizes.fresh)) {
  total_ = reshaped(builder, builder.cast(total, DType::i64), {1});
  lengths_ = builder.add("Add", {builder.cast(lengths, DType::i64), builder.integers({1})});
  const ValueId queries = builder.integers({sizes.queries});
  is_prompt_ = builder.add("Equal", {total_, queries});
  before_ = builder.add("Where", {is_prompt_, builder.integers({0}), builder.add("Sub", {lengths_, queries})});
  held_ = before_;
  if (!sizes.slides) return;
  held_ = end_of(before_);
  lengths_ = builder.add("Add", {held_, queries});
}

ValueId GroupedCache::column(ValueId value) {
  return reshaped(builder_, value, {sizes_.batch, 1, 1, 1});
}

// The number of positions in use in the buffer for a sequence with `count` positions.
ValueId GroupedCache::end_of(ValueId count) {
  const std::int64_t block = sizes_.past - sizes_.window + 1;
  const ValueId beyond =
      builder_.add("Max", {builder_.add("Sub", {count, builder_.integers({sizes_.past})}), builder_.integers({0})});
  const ValueId blocks =
      builder_.add("Div", {builder_.add("Add", {beyond, builder_.integers({block - 1})}), builder_.integers({block})});
  return builder_.add("Sub", {count, builder_.add("Mul", {blocks, builder_.integers({block})})});
}

ValueId GroupedCache::query_positions() {
  return builder_.add("Add", {reshaped(builder_, before_, {sizes_.batch, 1}), positions(builder_, sizes_.queries)});
}

ValueId GroupedCache::filled(ValueId past, ValueId fresh) {
  if (sizes_.past == 0) return fresh;
  // Without new positions (another layer's cache is read) all positions of the sequence are held.
  const ValueId kept = column(sizes_.fresh > 0 ? held_ : lengths_);
  const ValueId rows = reshaped(builder_, positions(builder_, sizes_.past), {sizes_.past, 1});
  const ValueId zero = builder_.scalar(0, builder_.dtype(past));
  const ValueId cache = builder_.add("Where", {builder_.add("Less", {rows, kept}), past, zero});
  if (sizes_.fresh == 0) return cache;
  const ValueId longer = builder_.add("Pad", {cache, builder_.integers({0, 0, 0, 0, 0, 0, sizes_.fresh, 0})});
  return builder_.add("TensorScatter", {longer, fresh, held_});
}

ValueId GroupedCache::present(ValueId filled) {
  if (sizes_.past == 0 || sizes_.fresh == 0) return filled;
  if (sizes_.slides) return slid(filled);
  const ValueId end = builder_.add("Max", {total_, builder_.integers({sizes_.past})});
  return builder_.add("Slice", {filled, builder_.integers({0}), end, builder_.integers({2})});
}

// [.., t, ..] = filled[.., t + number of dropped positions, ..] as far as the buffer is in use, then zeros.
ValueId GroupedCache::slid(ValueId filled) {
  const Shape shape = *builder_.type(filled).shape();
  const ValueId end = end_of(builder_.add("Add", {before_, builder_.integers({sizes_.queries})}));
  const ValueId dropped = builder_.add("Sub", {lengths_, end});
  const ValueId rows = reshaped(builder_, positions(builder_, sizes_.past), {sizes_.past, 1});
  const ValueId last = builder_.scalar(static_cast<double>(length() - 1), DType::i64);
  const ValueId sources = builder_.add("Min", {builder_.add("Add", {rows, column(dropped)}), last});
  const ValueId indices =
      builder_.add("Expand", {sources, builder_.integers({shape[0], shape[1], sizes_.past, shape[3]})});
  const ValueId moved = builder_.add("GatherElements", {filled, indices}, {{"axis", std::int64_t{2}}});
  const ValueId zero = builder_.scalar(0, builder_.dtype(filled));
  return builder_.add("Where", {builder_.add("Less", {rows, column(end)}), moved, zero});
}

ValueId GroupedCache::visible() {
  const ValueId keys = positions(builder_, length());
  const ValueId in_use = builder_.add("Less", {keys, column(lengths_)});
  if (!sizes_.causal) return in_use;
  const ValueId offsets = reshaped(builder_, positions(builder_, sizes_.queries), {sizes_.queries, 1});
  // Without new positions the queries are the last held positions.
  const ValueId rows = builder_.add("Add", {column(held_), offsets});
  const ValueId causal = builder_.add("And", {in_use, builder_.add("LessOrEqual", {keys, rows})});
  if (sizes_.window < 0) return causal;
  const ValueId oldest = builder_.add("Sub", {rows, builder_.integers({sizes_.window})});
  return builder_.add("And", {causal, builder_.add("Greater", {keys, oldest})});
}

ValueId GroupedCache::bias(ValueId given) {
  if (sizes_.slides) return slid_bias(given);
  const std::int64_t missing = length() - (*builder_.type(given).shape())[3];
  if (missing <= 0) return sliced(builder_, given, 3, 0, length());
  // No query attends to the positions added here.
  return builder_.add("Pad", {given, builder_.integers({0, 0, 0, 0, 0, 0, 0, missing})});
}

ValueId GroupedCache::slid_bias(ValueId given) {
  const Shape shape = *builder_.type(given).shape();
  const ValueId offset = column(builder_.add("Sub", {before_, held_}));
  const ValueId last = builder_.scalar(static_cast<double>(shape[3] - 1), DType::i64);
  const ValueId columns = builder_.add("Min", {builder_.add("Add", {positions(builder_, length()), offset}), last});
  const auto expanded = [&](ValueId value, std::int64_t width) {
    return builder_.add("Expand", {value, builder_.integers({sizes_.batch, shape[1], shape[2], width})});
  };
  return builder_.add("GatherElements", {expanded(given, shape[3]), expanded(columns, length())},
                      {{"axis", std::int64_t{3}}});
}

}  // namespace tessera::ops
