#include "ops/attention/attention_gradient.h"

#include <cmath>

#include "backends/backend.h"
#include "backends/host/numeric.h"
#include "backends/host/random.h"
#include "backends/reference/kernels/attention/attention_mask.h"
#include "ops/attention/attention.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

using ops::AttentionSizes;
namespace input = ops::attention_gradient_input;

// The offset of row `i` of a head in an operand that is packed or has its heads first.
std::size_t row_at(bool packed, std::int64_t b, std::int64_t h, std::int64_t heads, std::int64_t i, std::int64_t length,
                   std::int64_t size) {
  return static_cast<std::size_t>((packed ? (b * length + i) * heads + h : (b * heads + h) * length + i) * size);
}

double dot(const double* a, const double* b, std::int64_t size) {
  double sum = 0;
  for (std::int64_t e = 0; e < size; ++e) sum += a[e] * b[e];
  return sum;
}

void add(double factor, const double* x, std::int64_t size, double* y) {
  for (std::int64_t e = 0; e < size; ++e) y[e] += factor * x[e];
}

}  // namespace

void attention_gradient(KernelContext& context) {
  const AttentionSizes sizes =
      ops::attention_sizes(context, context.input(input::query).shape(), context.input(input::key).shape(),
                           context.input(input::value).shape(), nullptr);
  const auto operand = [&](std::size_t i) { return read<double>(context.input(i)); };
  const std::vector<double> q = operand(input::query), k = operand(input::key), v = operand(input::value),
                            y = operand(input::output), statistics = operand(input::statistics),
                            dy = operand(input::output_gradient);
  const AttentionMask mask(context, sizes,
                           {.mask = input::mask, .replacement = input::replacement, .second_mask = input::second_mask});
  const ops::NanRows nan_rows = ops::nan_rows_of(context);
  const bool drops = context.has_input(input::random);
  const double ratio = drops ? static_cast<double>(context.real("dropout")) : 0;
  const base::Philox random = drops ? read_random(context.input(input::random)) : base::Philox(0);
  std::vector<double> dq(q.size()), dk(k.size()), dv(v.size());
  const std::int64_t size = sizes.head_size, value_size = sizes.value_head_size, queries = sizes.query_length;
  // Work is split by heads of K and V, since these add up the gradients of several heads of Q.
  context.parallel_for(sizes.batch * sizes.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t b = task / sizes.kv_heads, kv = task % sizes.kv_heads;
      for (std::int64_t h = 0; h < sizes.query_heads; ++h) {
        if (sizes.kv_head(h) != kv) continue;
        for (std::int64_t i = 0; i < queries; ++i) {
          const double* row = &statistics[static_cast<std::size_t>(((b * sizes.query_heads + h) * queries + i) * 2)];
          if (row[0] == -INFINITY && nan_rows != ops::NanRows::propagate) continue;
          if (std::isnan(row[1]) && nan_rows == ops::NanRows::zeros) continue;
          const std::size_t at = row_at(sizes.packed, b, h, sizes.query_heads, i, queries, size),
                            out = row_at(sizes.packed, b, h, sizes.query_heads, i, queries, value_size);
          const double mean = dot(dy.data() + out, y.data() + out, value_size);
          for (std::int64_t t = 0; t < sizes.new_length; ++t) {
            const std::size_t key = row_at(sizes.packed, b, kv, sizes.kv_heads, t, sizes.new_length, size),
                              value = row_at(sizes.packed, b, kv, sizes.kv_heads, t, sizes.new_length, value_size);
            const double product = mask.rounded(dot(q.data() + at, k.data() + key, size) * sizes.scale);
            const double p = std::exp(mask(product, b, h, i, t) - row[0]) / row[1];
            if (p == 0) continue;
            const std::int64_t weight = ((b * sizes.query_heads + h) * queries + i) * sizes.new_length + t;
            const double kept = drops ? dropout_factor(random, ratio, weight) : 1;
            add(p * kept, dy.data() + out, value_size, dv.data() + value);
            if (mask.replaces(b, h, i, t)) continue;
            const double ds = p * (kept * dot(dy.data() + out, v.data() + value, value_size) - mean) * sizes.scale;
            add(ds, k.data() + key, size, dq.data() + at);
            add(ds, q.data() + at, size, dk.data() + key);
          }
        }
      }
    }
  });
  if (context.wants_output(0)) write(dq, context.output(0));
  if (context.wants_output(1)) write(dk, context.output(1));
  if (context.wants_output(2)) write(dv, context.output(2));
}

}  // namespace tessera::backends::reference
