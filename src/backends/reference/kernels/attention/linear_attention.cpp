#include <cmath>

#include "backends/backend.h"
#include "backends/host/numeric.h"

namespace tessera::backends::reference {

using namespace host;

void linear_attention(KernelContext& context) {
  const auto values = [&](std::size_t i) {
    return context.has_input(i) ? read<double>(context.input(i)) : std::vector<double>{};
  };
  const std::vector<double> q = values(0), k = values(1), v = values(2), decay = values(4), beta = values(5);
  std::vector<double> state = values(3);
  const Shape& shape = context.input(0).shape();
  const std::int64_t batch = shape[0], time = shape[1];
  const std::int64_t query_heads = context.integer("q_num_heads"), kv_heads = context.integer("kv_num_heads");
  const std::int64_t size = shape[2] / query_heads, value_size = context.input(2).shape()[2] / kv_heads;
  const std::int64_t group = query_heads / kv_heads;
  const bool decay_per_key = context.has_input(4) && context.input(4).shape()[2] == kv_heads * size;
  const bool shared_beta = context.has_input(5) && context.input(5).shape()[2] == 1;
  const double given = context.real("scale");
  const double scale = given != 0 ? given : 1 / std::sqrt(static_cast<double>(size));
  state.resize(static_cast<std::size_t>(batch * kv_heads * size * value_size), 0.0);
  std::vector<double> y = transient_vector<double>(batch * time * query_heads * value_size);
  context.parallel_for(batch * kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> added(static_cast<std::size_t>(value_size));
    for (std::int64_t head = begin; head < end; ++head) {
      const std::int64_t b = head / kv_heads, h = head % kv_heads;
      double* s = state.data() + head * size * value_size;
      for (std::int64_t t = 0; t < time; ++t) {
        context.check_stop();
        const std::int64_t step = b * time + t, at = step * kv_heads + h;
        const double *key = k.data() + at * size, *value = v.data() + at * value_size;
        for (std::int64_t i = 0; !decay.empty() && i < size; ++i) {
          const double factor = std::exp(decay[static_cast<std::size_t>(decay_per_key ? at * size + i : at)]);
          for (std::int64_t j = 0; j < value_size; ++j) s[i * value_size + j] *= factor;
        }
        for (std::int64_t j = 0; j < value_size; ++j) {
          double held = 0;
          for (std::int64_t i = 0; !beta.empty() && i < size; ++i) held += s[i * value_size + j] * key[i];
          const double rate = beta.empty() ? 1 : beta[static_cast<std::size_t>(shared_beta ? step : at)];
          added[static_cast<std::size_t>(j)] = rate * (value[j] - held);
        }
        for (std::int64_t i = 0; i < size; ++i) {
          for (std::int64_t j = 0; j < value_size; ++j)
            s[i * value_size + j] += key[i] * added[static_cast<std::size_t>(j)];
        }
        for (std::int64_t head_of_group = 0; head_of_group < group; ++head_of_group) {
          const std::int64_t out = step * query_heads + h * group + head_of_group;
          const double* query = q.data() + out * size;
          for (std::int64_t j = 0; j < value_size; ++j) {
            double sum = 0;
            for (std::int64_t i = 0; i < size; ++i) sum += query[i] * s[i * value_size + j];
            y[static_cast<std::size_t>(out * value_size + j)] = scale * sum;
          }
        }
      }
    }
  });
  write(y, context.output(0));
  if (context.wants_output(1)) write(state, context.output(1));
}

}  // namespace tessera::backends::reference
