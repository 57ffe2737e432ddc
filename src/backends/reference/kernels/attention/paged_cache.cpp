#include "ops/attention/paged_cache.h"

#include <cmath>
#include <cstring>
#include <map>

#include "backends/backend.h"
#include "backends/host/numeric.h"
#include "base/numbers/half.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// The element as a cache stores it: rounded to f16, or to a multiple of the row's scale.
struct RowRounding {
  DType type;
  float scale = 0;

  RowRounding(DType of, std::span<const float> row) : type(of) {
    float largest = 0;
    for (const float x : row) largest = std::isnan(x) || std::abs(x) > largest ? std::abs(x) : largest;
    if (type == DType::i8) scale = largest / 127.0f;
  }
  std::int8_t code(float x) const {
    return scale > 0 && std::isfinite(scale) ? static_cast<std::int8_t>(std::round(x / scale)) : std::int8_t{0};
  }
  double rounded(float x) const {
    if (type == DType::f32) return static_cast<double>(x);
    if (type == DType::f16) return static_cast<double>(base::to_float(base::to_f16(x)));
    return static_cast<double>(scale) * static_cast<double>(code(x));
  }
};

// Rows of keys or values by their places.
class CachedRows {
 public:
  CachedRows(const Tensor& fresh, const Tensor& cache, const Tensor* scales)
      : fresh_(fresh), cache_(cache), scales_(scales), heads_(cache.shape()[1]), size_(cache.shape()[3]) {}

  std::int64_t size() const { return size_; }
  std::vector<double> of_step(std::int64_t row, std::int64_t head) const {
    const auto from = fresh_.values<float>().subspan(static_cast<std::size_t>((row * heads_ + head) * size_),
                                                     static_cast<std::size_t>(size_));
    const RowRounding rounding(cache_.dtype(), from);
    std::vector<double> values;
    for (const float x : from) values.push_back(rounding.rounded(x));
    return values;
  }
  std::vector<double> at(ops::CachePlace place, std::int64_t head) const {
    const std::int64_t row = (place.page * heads_ + head) * cache_.shape()[2] + place.row;
    std::vector<double> values;
    for (std::int64_t i = 0; i < size_; ++i) {
      if (cache_.dtype() == DType::f32) {
        values.push_back(static_cast<double>(cache_.data<float>()[row * size_ + i]));
      } else if (cache_.dtype() == DType::f16) {
        values.push_back(static_cast<double>(base::to_float(cache_.data<f16_t>()[row * size_ + i])));
      } else {
        values.push_back(static_cast<double>(scales_->data<float>()[row]) *
                         static_cast<double>(cache_.data<std::int8_t>()[row * size_ + i]));
      }
    }
    return values;
  }

 private:
  const Tensor &fresh_, &cache_;
  const Tensor* scales_;
  const std::int64_t heads_, size_;
};

}  // namespace

void cache_attention(KernelContext& context) {
  const auto scales = [&](std::size_t i) { return context.has_input(i) ? &context.input(i) : nullptr; };
  const CachedRows keys(context.input(ops::kCacheKey), context.input(ops::kKeyCache), scales(ops::kKeyScales)),
      values(context.input(ops::kCacheValue), context.input(ops::kValueCache), scales(ops::kValueScales));
  const ops::PageTable table(context.input(ops::kCachePages), context.input(ops::kKeyCache).shape());
  const std::int64_t heads = context.integer("heads"), group = heads / context.integer("kv_heads"),
                     window = context.integer("window"), rows = context.input(ops::kCacheQuery).shape()[0];
  const double scale = context.real("scale"), softcap = context.real("softcap");
  const std::int64_t* const positions = context.input(ops::kCachePositions).data<std::int64_t>();
  const std::int64_t* const sequence = context.input(ops::kCacheSequence).data<std::int64_t>();
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> in_step;
  for (std::int64_t t = 0; t < rows; ++t) in_step.insert_or_assign({sequence[t], positions[t]}, t);
  const float* const q = context.input(ops::kCacheQuery).data<float>();
  std::vector<double> y = transient_vector<double>(rows * heads * values.size(), 0.0);
  for (std::int64_t t = 0; t < rows; ++t) {
    if (sequence[t] < 0) continue;
    table.place(sequence[t], positions[t]);  // of its own position, which must have a place
    for (std::int64_t h = 0; h < heads; ++h) {
      context.check_stop();
      const std::int64_t first = window > 0 ? std::max<std::int64_t>(0, positions[t] - window + 1) : 0;
      std::vector<double> scores;
      std::vector<std::vector<double>> seen;
      double largest = context.has_input(ops::kCacheSinks)
                           ? static_cast<double>(context.input(ops::kCacheSinks).data<float>()[h])
                           : -INFINITY;
      for (std::int64_t p = first; p <= positions[t]; ++p) {
        const auto found = in_step.find({sequence[t], p});
        const bool is_fresh = found != in_step.end();
        const ops::CachePlace place = is_fresh ? ops::CachePlace{} : table.place(sequence[t], p);
        const std::vector<double> key = is_fresh ? keys.of_step(found->second, h / group) : keys.at(place, h / group);
        seen.push_back(is_fresh ? values.of_step(found->second, h / group) : values.at(place, h / group));
        double score = 0;
        for (std::int64_t i = 0; i < keys.size(); ++i)
          score += static_cast<double>(q[(t * heads + h) * keys.size() + i]) * key[static_cast<std::size_t>(i)];
        score *= scale;
        if (softcap > 0) score = softcap * std::tanh(score / softcap);
        scores.push_back(score);
        largest = std::isnan(score) || score > largest ? score : largest;
      }
      double sum = context.has_input(ops::kCacheSinks)
                       ? std::exp(static_cast<double>(context.input(ops::kCacheSinks).data<float>()[h]) - largest)
                       : 0.0;
      for (double& score : scores) sum += score = std::exp(score - largest);
      for (std::size_t p = 0; p < scores.size(); ++p) {
        for (std::int64_t i = 0; i < values.size(); ++i)
          y[(t * heads + h) * values.size() + i] += scores[p] / sum * seen[p][static_cast<std::size_t>(i)];
      }
    }
  }
  write<double>(y, context.output(0));
}

void append_rows(KernelContext& context) {
  const Tensor &cache = context.input(ops::kAppendCache), &rows = context.input(ops::kAppendRows);
  const ops::PageTable table(context.input(ops::kAppendPages), cache.shape());
  const bool has_scales = context.has_input(ops::kAppendScales);
  const std::int64_t heads = cache.shape()[1], size = cache.shape()[3];
  std::vector<ops::CachePlace> places;
  const std::int64_t* const sequence = context.input(ops::kAppendSequence).data<std::int64_t>();
  const std::int64_t* const positions = context.input(ops::kAppendPositions).data<std::int64_t>();
  // All places are found before anything is written, which may be in place.
  for (std::int64_t t = 0; t < rows.shape()[0]; ++t)
    places.push_back(sequence[t] < 0 ? ops::CachePlace{-1, -1} : table.place(sequence[t], positions[t]));
  Tensor& to = context.output(0);
  if (to.raw() != cache.raw()) std::memcpy(to.mutable_raw(), cache.raw(), static_cast<std::size_t>(cache.bytes()));
  Tensor* const scales = has_scales && context.wants_output(1) ? &context.output(1) : nullptr;
  if (scales != nullptr && scales->raw() != context.input(ops::kAppendScales).raw())
    std::memcpy(scales->mutable_raw(), context.input(ops::kAppendScales).raw(),
                static_cast<std::size_t>(scales->bytes()));
  for (std::size_t t = 0; t < places.size(); ++t) {
    if (places[t].page < 0) continue;
    for (std::int64_t h = 0; h < heads; ++h) {
      const auto from = rows.values<float>().subspan(
          static_cast<std::size_t>((static_cast<std::int64_t>(t) * heads + h) * size), static_cast<std::size_t>(size));
      const RowRounding rounding(cache.dtype(), from);
      const std::int64_t row = (places[t].page * heads + h) * cache.shape()[2] + places[t].row;
      for (std::int64_t i = 0; i < size; ++i) {
        const float x = from[static_cast<std::size_t>(i)];
        if (rounding.type == DType::f32) to.mutable_data<float>()[row * size + i] = x;
        else if (rounding.type == DType::f16) to.mutable_data<f16_t>()[row * size + i] = base::to_f16(x);
        else to.mutable_data<std::int8_t>()[row * size + i] = rounding.code(x);
      }
      if (scales != nullptr) scales->mutable_data<float>()[row] = rounding.scale;
    }
  }
}

}  // namespace tessera::backends::reference
