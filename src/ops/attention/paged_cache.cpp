#include "ops/attention/paged_cache.h"

#include <algorithm>

#include "base/error.h"
#include "ops/core/check_operand.h"
#include "ops/core/product.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;
using ir::Dim;
using ir::Dims;

constexpr TypeSet kCached{DType::f32, DType::f16, DType::i8};

// Checks pages, positions and sequence, whose inputs follow each other, for `rows` rows.
void check_places(const InferContext& context, std::size_t pages, const Dim& rows) {
  dims_of_rank(context, pages, 2);
  check_operand(context, pages + 1, {rows});
  check_operand(context, pages + 2, {rows});
}

// Checks that scales are given for a cache of i8 alone, with a scale for each position and head.
void check_paged_cache_scales(const InferContext& context, std::size_t cache, std::size_t scales) {
  const bool wanted = context.dtype(cache) == DType::i8;
  context.check(context.has_input(scales) == wanted, "'{}' is {}, which {} '{}'", context.op().inputs[cache].name,
                name_of(context.dtype(cache)), wanted ? "needs" : "has no", context.op().inputs[scales].name);
  const Dims dims = dims_of_rank(context, cache, 4);
  if (wanted) check_operand(context, scales, {dims[0], dims[1], dims[2]});
}

void infer_attention(InferContext& context) {
  const std::int64_t heads = head_count(context, "heads"), kv_heads = head_count(context, "kv_heads");
  context.check(heads % kv_heads == 0, "{} query heads are not a multiple of {} key heads", heads, kv_heads);
  context.check(context.integer("window") >= 0, "window is {}, expected at least 0", context.integer("window"));
  context.check(context.real("softcap") >= 0, "softcap is {}, expected at least 0", context.real("softcap"));
  const Dims q = dims_of_rank(context, kCacheQuery, 2), v = dims_of_rank(context, kCacheValue, 2);
  const Dim size = head_size_of(context, q[1], heads, "q"), value_size = head_size_of(context, v[1], kv_heads, "v");
  check_operand(context, kCacheKey, {q[0], Dim(kv_heads) * size});
  check_operand(context, kCacheValue, {q[0], Dim(kv_heads) * value_size});
  const Dims keys = dims_of_rank(context, kKeyCache, 4);
  check_operand(context, kKeyCache, {keys[0], kv_heads, keys[2], size});
  check_operand(context, kValueCache, {keys[0], kv_heads, keys[2], value_size});
  context.check(context.dtype(kKeyCache) == context.dtype(kValueCache), "the cache of keys is {}, that of values {}",
                name_of(context.dtype(kKeyCache)), name_of(context.dtype(kValueCache)));
  check_places(context, kCachePages, q[0]);
  check_operand(context, kCacheSinks, {heads});
  check_paged_cache_scales(context, kKeyCache, kKeyScales);
  check_paged_cache_scales(context, kValueCache, kValueScales);
  context.set_output(0, DType::f32, {q[0], Dim(heads) * value_size});
}

// Each row meets as many keys as its sequence may have: the pages bound them.
double attention_operations(const NodeView& view) {
  const Shape &q = view.input(kCacheQuery).shape, &pages = view.input(kCachePages).shape,
              &keys = view.input(kKeyCache).shape, &values = view.input(kValueCache).shape;
  const auto positions = static_cast<double>(pages[1]) * static_cast<double>(keys[2]);
  return 2.0 * static_cast<double>(q[0]) * static_cast<double>(view.integer("heads")) * positions *
         static_cast<double>(keys[3] + values[3]);
}

// The operands of the step, and of the caches the pages of its sequences.
double attention_bytes(const NodeView& view) {
  double bytes = 0;
  for (const std::size_t i : {kCacheQuery, kCacheKey, kCacheValue, kCachePages, kCachePositions, kCacheSequence})
    bytes += static_cast<double>(view.input(i).bytes());
  const Shape& pages = view.input(kCachePages).shape;
  const auto used = static_cast<double>(pages[0]) * static_cast<double>(pages[1]);
  for (const std::size_t i : {kKeyCache, kValueCache}) {
    const auto all = static_cast<double>(std::max<std::int64_t>(view.input(i).shape[0], 1));
    bytes += static_cast<double>(view.input(i).bytes()) * std::min(used / all, 1.0);
  }
  return bytes;
}

void infer_append(InferContext& context) {
  const Dims cache = dims_of_rank(context, kAppendCache, 4), rows = dims_of_rank(context, kAppendRows, 2);
  check_operand(context, kAppendRows, {rows[0], cache[1] * cache[3]});
  check_places(context, kAppendPages, rows[0]);
  check_paged_cache_scales(context, kAppendCache, kAppendScales);
  context.set_output(0, context.dtype(kAppendCache), cache);
  if (context.wants_output(1)) {
    context.check(context.has_input(kAppendScales), "'scales' are asked for, but none are given");
    context.set_output(1, DType::f32, {cache[0], cache[1], cache[2]});
  }
}

// The rows alone: a cache is written in place.
double append_bytes(const NodeView& view) {
  return static_cast<double>(view.input(kAppendRows).bytes());
}

}  // namespace

bool appends_in_place(const ir::Node&, std::size_t output, std::size_t input) {
  return (output == 0 && input == kAppendCache) || (output == 1 && input == kAppendScales);
}

PageTable::PageTable(const Tensor& pages, const Shape& cache)
    : table_(pages.data<std::int64_t>()),
      sequences_(pages.shape()[0]),
      columns_(pages.shape()[1]),
      pages_(cache[0]),
      page_rows_(cache[2]) {}

CachePlace PageTable::place(std::int64_t sequence, std::int64_t position) const {
  require(sequence >= 0 && sequence < sequences_, ErrorKind::failed, "sequence {} is none of {}", sequence, sequences_);
  require(position >= 0 && page_rows_ > 0 && position / page_rows_ < columns_, ErrorKind::failed,
          "position {} of sequence {} lies beyond its {} pages of {}", position, sequence, columns_, page_rows_);
  const std::int64_t page = table_[sequence * columns_ + position / page_rows_];
  require(page >= 0 && page < pages_, ErrorKind::failed,
          "position {} of sequence {} lies in page {}, which is none of {}", position, sequence, page, pages_);
  return {page, position % page_rows_};
}

const OpDef cache_attention{
    .name = "tessera::CacheAttention",
    .since = 1,
    .product = several_products,
    .inputs = {{"q", {DType::f32}},
               {"k", {DType::f32}},
               {"v", {DType::f32}},
               {"key_cache", kCached, "C"},
               {"value_cache", kCached, "C"},
               {"pages", {DType::i64}},
               {"positions", {DType::i64}},
               {"sequence", {DType::i64}},
               {"sinks", {DType::f32}, "", optional},
               {"key_scales", {DType::f32}, "", optional},
               {"value_scales", {DType::f32}, "", optional}},
    .outputs = {{"Y", {DType::f32}}},
    .attributes = {{"heads", AttributeKind::integer, std::nullopt, true},
                   {"kv_heads", AttributeKind::integer, std::nullopt, true},
                   {"scale", AttributeKind::real, std::nullopt, true},
                   {"window", AttributeKind::integer, ir::Attribute(std::int64_t{0})},
                   {"softcap", AttributeKind::real, ir::Attribute(0.0f)}},
    .infer = infer_attention,
    .operations = attention_operations,
    .bytes_read = attention_bytes,
    .traits = {Trait::keeps_storage},
};

const OpDef append_rows{
    .name = "tessera::AppendRows",
    .since = 1,
    .inputs = {{"cache", kCached, "C"},
               {"rows", {DType::f32}},
               {"pages", {DType::i64}},
               {"positions", {DType::i64}},
               {"sequence", {DType::i64}},
               {"scales", {DType::f32}, "", optional}},
    .outputs = {{"cache", kCached, "C"}, {"scales", {DType::f32}, "", optional}},
    .infer = infer_append,
    .bytes_read = append_bytes,
    .traits = {Trait::keeps_storage},
};

}  // namespace tessera::ops
