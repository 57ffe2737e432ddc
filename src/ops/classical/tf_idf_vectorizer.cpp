#include "ops/classical/tf_idf_vectorizer.h"

#include <algorithm>

namespace tessera::ops {
namespace {

constexpr TypeSet kTfIdfVectorizerTypes{DType::i32, DType::i64, DType::string};

// Checks that the pool consists of whole n-grams of each length, and that each n-gram has a column.
void check_pool(const InferContext& context, std::int64_t items) {
  const std::vector<std::int64_t>& starts = context.integers("ngram_counts");
  const std::vector<std::int64_t>& columns = context.integers("ngram_indexes");
  context.check(!starts.empty() && !columns.empty(), "ngram_counts and ngram_indexes must not be empty");
  std::int64_t total = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::int64_t end = i + 1 < starts.size() ? starts[i + 1] : items, length = static_cast<std::int64_t>(i) + 1;
    context.check(starts[i] >= 0 && starts[i] <= end && end <= items,
                  "ngram_counts {} do not divide a pool of {} items", to_string(starts), items);
    context.check((end - starts[i]) % length == 0, "{} items are no whole {}-grams", end - starts[i], length);
    total += (end - starts[i]) / length;
  }
  context.check(total == static_cast<std::int64_t>(columns.size()), "{} n-grams, but {} ngram_indexes", total,
                columns.size());
}

void infer_tf_idf_vectorizer(InferContext& context) {
  const std::string& mode = context.text("mode");
  context.check(mode == "TF" || mode == "IDF" || mode == "TFIDF", "mode is '{}', expected TF, IDF or TFIDF", mode);
  const std::int64_t shortest = context.integer("min_gram_length"), longest = context.integer("max_gram_length");
  context.check(shortest >= 1 && longest >= shortest, "n-grams of {} to {} items", shortest, longest);
  context.check(context.integer("max_skip_count") >= 0, "max_skip_count is {}", context.integer("max_skip_count"));
  const std::string_view pool = context.dtype(0) == DType::string ? "pool_strings" : "pool_int64s";
  context.check(context.has_attribute(pool), "attribute '{}' is missing", pool);
  check_pool(context, static_cast<std::int64_t>(context.dtype(0) == DType::string ? context.texts(pool).size()
                                                                                  : context.integers(pool).size()));
  const std::vector<std::int64_t>& columns = context.integers("ngram_indexes");
  const auto [least, most] = std::minmax_element(columns.begin(), columns.end());
  context.check(*least >= 0 && *most < (std::int64_t{1} << 40), "ngram_indexes reach from {} to {}", *least, *most);
  context.check(!context.has_attribute("weights") || static_cast<std::int64_t>(context.reals("weights").size()) > *most,
                "{} weights for {} columns", context.has_attribute("weights") ? context.reals("weights").size() : 0,
                *most + 1);
  const ir::Dims* dims = context.dims(0);
  if (dims == nullptr) return context.set_output_unknown_rank(0, DType::f32);
  context.check(dims->size() <= 2, "X is {}, expected [C] or [N, C]", ir::to_string(*dims));
  ir::Dims result{*most + 1};
  if (dims->size() == 2) result.insert(result.begin(), (*dims)[0]);
  context.set_output(0, DType::f32, std::move(result));
}

}  // namespace

const OpDef tf_idf_vectorizer{
    .name = "TfIdfVectorizer",
    .since = 9,
    .inputs = {{"X", kTfIdfVectorizerTypes}},
    .outputs = {{"Y", {DType::f32}}},
    .attributes = {{"max_gram_length", ir::AttributeKind::integer, std::nullopt, true},
                   {"max_skip_count", ir::AttributeKind::integer, std::nullopt, true},
                   {"min_gram_length", ir::AttributeKind::integer, std::nullopt, true},
                   {"mode", ir::AttributeKind::text, std::nullopt, true},
                   {"ngram_counts", ir::AttributeKind::integers, std::nullopt, true},
                   {"ngram_indexes", ir::AttributeKind::integers, std::nullopt, true},
                   {"pool_int64s", ir::AttributeKind::integers},
                   {"pool_strings", ir::AttributeKind::texts},
                   {"weights", ir::AttributeKind::reals}},
    .infer = infer_tf_idf_vectorizer,
};

}  // namespace tessera::ops
