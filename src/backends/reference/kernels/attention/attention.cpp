#include "ops/attention/attention.h"

#include <cmath>

#include "backends/backend.h"
#include "backends/host/numeric.h"
#include "backends/host/random.h"
#include "backends/reference/kernels/attention/attention_mask.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

using ops::AttentionSizes;

// Joins past and present keys or values to [batch, kv_heads, total_length, size].
std::vector<double> join_past(const std::vector<double>& past, const std::vector<double>& now,
                              const AttentionSizes& sizes, std::int64_t size) {
  const std::int64_t total = sizes.total_length();
  std::vector<double> all = transient_vector<double>(sizes.batch * sizes.kv_heads * total * size);
  for (std::int64_t b = 0; b < sizes.batch; ++b) {
    for (std::int64_t h = 0; h < sizes.kv_heads; ++h) {
      const std::int64_t head = b * sizes.kv_heads + h;
      for (std::int64_t t = 0; t < total; ++t) {
        const std::int64_t fresh = t - sizes.past_length;
        const std::int64_t packed = (b * sizes.new_length + fresh) * sizes.kv_heads + h;
        const std::int64_t row = sizes.packed ? packed : head * sizes.new_length + fresh;
        const double* from = fresh < 0 ? past.data() + (head * sizes.past_length + t) * size : now.data() + row * size;
        std::copy_n(from, size, all.data() + (head * total + t) * size);
      }
    }
  }
  return all;
}

// Computes softmax in place. Returns the largest score and the sum of e^(score - largest).
std::pair<double, double> softmax_row(std::vector<double>& scores, ops::NanRows nan_rows) {
  double largest = -INFINITY, sum = 0;
  for (const double score : scores) largest = score > largest || std::isnan(score) ? score : largest;
  if (largest == -INFINITY) {
    scores.assign(scores.size(), nan_rows == ops::NanRows::propagate ? NAN : 0.0);
    return {largest, 0};
  }
  for (double& score : scores) sum += score = std::exp(score - largest);
  for (double& score : scores) score = std::isnan(sum) && nan_rows == ops::NanRows::zeros ? 0 : score / sum;
  return {largest, sum};
}

}  // namespace

void attention(KernelContext& context) {
  const bool has_past = context.has_input(4);
  const AttentionSizes sizes =
      ops::attention_sizes(context, context.input(0).shape(), context.input(1).shape(), context.input(2).shape(),
                           has_past ? &context.input(4).shape() : nullptr);
  const std::int64_t total = sizes.total_length(), size = sizes.head_size, value_size = sizes.value_head_size;
  const auto past = [&](std::size_t i) { return has_past ? read<double>(context.input(i)) : std::vector<double>{}; };
  const std::vector<double> q = read<double>(context.input(0));
  const std::vector<double> k = join_past(past(4), read<double>(context.input(1)), sizes, size);
  const std::vector<double> v = join_past(past(5), read<double>(context.input(2)), sizes, value_size);
  const AttentionMask mask(context, sizes,
                           {.mask = 3,
                            .replacement = ops::kAttentionReplacement,
                            .second_mask = ops::kAttentionSecondMask,
                            .valid = context.has_input(6) ? &context.input(6) : nullptr});
  const ops::NanRows nan_rows = ops::nan_rows_of(context);
  const bool skips_zeros = nan_rows == ops::NanRows::zeros_for_no_key || context.integer("is_causal") != 0;
  const double softcap = context.real("softcap");
  const std::int64_t mode = context.integer("qk_matmul_output_mode");
  const std::int64_t queries = sizes.batch * sizes.query_heads * sizes.query_length;
  std::vector<double> y = transient_vector<double>(queries * value_size, 0.0);
  const bool with_statistics = ops::gives_statistics(context.op());
  std::vector<double> shown(!with_statistics && context.wants_output(3) ? static_cast<std::size_t>(queries * total)
                                                                        : 0);
  std::vector<double> statistics(
      with_statistics && context.wants_output(ops::kAttentionStatistics) ? static_cast<std::size_t>(queries * 2) : 0);
  const bool drops = ops::drops_weights(context.op());
  const double ratio = drops ? static_cast<double>(context.real("dropout")) : 0;
  const base::Philox random = drops ? random_of(context) : base::Philox(0);
  context.parallel_for(queries, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> scores(static_cast<std::size_t>(total));
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t i = row % sizes.query_length, h = row / sizes.query_length % sizes.query_heads;
      const std::int64_t b = row / sizes.query_length / sizes.query_heads;
      const std::int64_t packed_row = (b * sizes.query_length + i) * sizes.query_heads + h;
      const std::int64_t head = (b * sizes.kv_heads + sizes.kv_head(h)) * total;
      const double* query = q.data() + (sizes.packed ? packed_row : row) * size;
      const auto show = [&](std::int64_t stage) {
        if (mode == stage && !shown.empty()) std::copy(scores.begin(), scores.end(), shown.begin() + row * total);
      };
      for (std::int64_t t = 0; t < total; ++t) {
        double sum = 0;
        for (std::int64_t e = 0; e < size; ++e) sum += query[e] * k[static_cast<std::size_t>((head + t) * size + e)];
        scores[static_cast<std::size_t>(t)] = mask.rounded(sum * sizes.scale);
      }
      show(0);
      if (softcap > 0) {
        for (double& score : scores) score = softcap * std::tanh(score / softcap);
      }
      show(1);
      for (std::int64_t t = 0; t < total; ++t) {
        double& score = scores[static_cast<std::size_t>(t)];
        score = mask(score, b, h, i, t);
      }
      show(2);
      const auto [largest, sum] = softmax_row(scores, nan_rows);
      if (!statistics.empty()) {
        statistics[static_cast<std::size_t>(2 * row)] = largest;
        statistics[static_cast<std::size_t>(2 * row + 1)] = sum;
      }
      show(3);
      for (std::int64_t t = 0; drops && t < total; ++t)
        scores[static_cast<std::size_t>(t)] *= dropout_factor(random, ratio, row * total + t);
      double* out = y.data() + (sizes.packed ? packed_row : row) * value_size;
      for (std::int64_t t = 0; t < total; ++t) {
        const double weight = scores[static_cast<std::size_t>(t)];
        if (weight == 0 && skips_zeros) continue;
        for (std::int64_t e = 0; e < value_size; ++e) {
          out[e] += weight * v[static_cast<std::size_t>((head + t) * value_size + e)];
        }
      }
    }
  });
  if (context.wants_output(0)) write(y, context.output(0));
  if (context.wants_output(1)) write(k, context.output(1));
  if (context.wants_output(2)) write(v, context.output(2));
  if (context.wants_output(3)) write(with_statistics ? statistics : shown, context.output(3));
  if (drops && context.wants_output(ops::kAttentionRandom)) write_random(random, context.output(ops::kAttentionRandom));
}

}  // namespace tessera::backends::reference
