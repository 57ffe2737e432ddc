#include "ops/classical/tf_idf_vectorizer.h"

#include <algorithm>
#include <map>
#include <memory>

#include "backends/backend.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::reference {
namespace {

// A prefix tree of n-grams; `column` is the output column of a complete n-gram, or -1.
template <typename Item>
struct Prefix {
  std::map<Item, std::unique_ptr<Prefix>> next;
  std::int64_t column = -1;
};

template <typename Item>
Prefix<Item> build_tree(const ops::AttributeReader& reader, const std::vector<Item>& pool) {
  Prefix<Item> root;
  const std::vector<std::int64_t>& starts = reader.integers("ngram_counts");
  std::size_t gram = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::int64_t end = i + 1 < starts.size() ? starts[i + 1] : static_cast<std::int64_t>(pool.size()),
                       length = static_cast<std::int64_t>(i) + 1;
    const bool wanted = length >= reader.integer("min_gram_length") && length <= reader.integer("max_gram_length");
    for (std::int64_t start = starts[i]; start < end; start += length, ++gram) {
      if (!wanted) continue;
      Prefix<Item>* place = &root;
      for (std::int64_t k = 0; k < length; ++k) {
        std::unique_ptr<Prefix<Item>>& child = place->next[pool[start + k]];
        if (child == nullptr) child = std::make_unique<Prefix<Item>>();
        place = child.get();
      }
      place->column = reader.integers("ngram_indexes")[gram];
    }
  }
  return root;
}

// Counts the n-grams of one row whose items are 1, 2 … max_skip_count + 1 apart. Single items count once, at distance
// 1.
template <typename Item>
void count_row(const KernelContext& reader, const Prefix<Item>& root, std::span<const Item> row, float* counts) {
  const std::int64_t items = static_cast<std::int64_t>(row.size()), longest = reader.integer("max_gram_length");
  const std::int64_t most_apart = std::min(reader.integer("max_skip_count"), items) + 1;
  std::int64_t shortest = reader.integer("min_gram_length");
  for (std::int64_t apart = 1; apart <= most_apart && shortest <= longest; ++apart) {
    reader.check_stop();
    for (std::int64_t start = 0; start < items; ++start) {
      const Prefix<Item>* place = &root;
      std::int64_t length = 0;
      for (std::int64_t i = start; i < items && length < longest; i += apart) {
        const auto found = place->next.find(row[i]);
        if (found == place->next.end()) break;
        place = found->second.get();
        if (++length >= shortest && place->column >= 0) counts[place->column] += 1;
      }
    }
    if (shortest == 1) shortest = 2;
  }
}

template <typename Item>
void count_all(KernelContext& context, const std::vector<Item>& items, const std::vector<Item>& pool, Tensor& output) {
  const Prefix<Item> root = build_tree(context, pool);
  const std::int64_t columns = output.shape().back(), rows = columns == 0 ? 0 : output.elements() / columns;
  const std::size_t length = rows == 0 ? 0 : items.size() / static_cast<std::size_t>(rows);
  for (std::int64_t row = 0; row < rows; ++row) {
    count_row<Item>(context, root, std::span(items).subspan(static_cast<std::size_t>(row) * length, length),
                    output.mutable_data<float>() + row * columns);
  }
}

}  // namespace

// Counts are held in float, exact up to 2^24 occurrences in a row.
void tf_idf_vectorizer(KernelContext& context) {
  const Tensor& input = context.input(0);
  const std::vector<std::int64_t>& indexes = context.integers("ngram_indexes");
  Shape shape{*std::max_element(indexes.begin(), indexes.end()) + 1};
  if (input.rank() == 2) shape.insert(shape.begin(), input.shape()[0]);
  Tensor& output = context.allocate_output(0, shape);
  const std::span<float> values = output.mutable_values<float>();
  std::fill(values.begin(), values.end(), 0.0f);
  if (input.dtype() == DType::string) {
    const std::span<const std::string> items = input.values<std::string>();
    count_all<std::string>(context, {items.begin(), items.end()}, context.texts("pool_strings"), output);
  } else {
    count_all<std::int64_t>(context, ops::integers_of(input), context.integers("pool_int64s"), output);
  }
  const std::string& mode = context.text("mode");
  for (std::size_t i = 0; mode != "TF" && i < values.size(); ++i) {
    const float weight =
        context.has_attribute("weights") ? context.reals("weights")[i % static_cast<std::size_t>(shape.back())] : 1.0f;
    if (mode == "IDF") values[i] = values[i] > 0 ? weight : 0;
    else values[i] *= weight;
  }
}

}  // namespace tessera::backends::reference
