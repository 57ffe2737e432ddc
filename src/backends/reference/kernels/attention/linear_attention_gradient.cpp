#include <algorithm>
#include <cmath>

#include "backends/backend.h"
#include "backends/host/numeric.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

using Doubles = std::vector<double>;

// The operands of a call and their gradients; names as in ops/attention/linear_attention.cpp. Empty vectors are absent.
struct Call {
  Doubles q, k, v, past, decay, beta, dy, dstate;
  Doubles dq, dk, dv, dpast, ddecay, dbeta;
  std::int64_t time = 0, query_heads = 0, kv_heads = 0, size = 0, value_size = 0, group = 1, chunk = 1;
  bool decay_per_key = false, shared_beta = false;
  double scale = 1;
};

// Computes one head: forward in chunks, then each chunk backward. Matrices are [size, value_size].
class HeadGradient {
 public:
  HeadGradient(const KernelContext& context, Call& call, std::int64_t head)
      : context_(context),
        c_(call),
        head_(head),
        cells_(call.size * call.value_size),
        state_(cells(), 0.0),
        slope_(cells(), 0.0),
        held_(static_cast<std::size_t>(call.value_size)),
        added_(held_.size()),
        dadded_(held_.size()) {}

  void run() {
    const auto at = static_cast<std::ptrdiff_t>(head_ * cells_);
    if (!c_.past.empty()) std::copy_n(c_.past.begin() + at, cells_, state_.begin());
    if (!c_.dstate.empty()) std::copy_n(c_.dstate.begin() + at, cells_, slope_.begin());
    std::vector<Doubles> starts;
    for (std::int64_t t = 0; t < c_.time; ++t) {
      if (t % c_.chunk == 0) starts.push_back(state_);
      forward(t);
    }
    for (std::int64_t chunk = static_cast<std::int64_t>(starts.size()); chunk-- > 0;) {
      const std::int64_t first = chunk * c_.chunk, end = std::min(c_.time, first + c_.chunk);
      std::vector<Doubles> before;  // the state before each step
      state_ = starts[static_cast<std::size_t>(chunk)];
      for (std::int64_t t = first; t < end; ++t) {
        before.push_back(state_);
        forward(t);
      }
      for (std::int64_t t = end; t-- > first;) {
        state_ = before[static_cast<std::size_t>(t - first)];
        backward(t);
      }
    }
    if (!c_.dpast.empty()) std::copy_n(slope_.begin(), cells_, c_.dpast.begin() + at);
  }

 private:
  std::size_t cells() const { return static_cast<std::size_t>(cells_); }
  std::int64_t step(std::int64_t t) const { return head_ / c_.kv_heads * c_.time + t; }
  std::int64_t place(std::int64_t t) const { return step(t) * c_.kv_heads + head_ % c_.kv_heads; }
  std::size_t beta_at(std::int64_t t) const { return static_cast<std::size_t>(c_.shared_beta ? step(t) : place(t)); }
  std::size_t decay_at(std::int64_t t, std::int64_t i) const {
    return static_cast<std::size_t>(c_.decay_per_key ? place(t) * c_.size + i : place(t));
  }

  // state = exp(decay) state; held = state^T k; added = beta (v - held)
  void forget(std::int64_t t) {
    context_.check_stop();
    const double *key = c_.k.data() + place(t) * c_.size, *value = c_.v.data() + place(t) * c_.value_size;
    for (std::int64_t i = 0; !c_.decay.empty() && i < c_.size; ++i) {
      const double factor = std::exp(c_.decay[decay_at(t, i)]);
      for (std::size_t j = 0; j < held_.size(); ++j) state_[cell(i, j)] *= factor;
    }
    std::fill(held_.begin(), held_.end(), 0.0);
    for (std::int64_t i = 0; !c_.beta.empty() && i < c_.size; ++i) {
      for (std::size_t j = 0; j < held_.size(); ++j) held_[j] += state_[cell(i, j)] * key[i];
    }
    const double rate = c_.beta.empty() ? 1 : c_.beta[beta_at(t)];
    for (std::size_t j = 0; j < held_.size(); ++j) added_[j] = rate * (value[j] - held_[j]);
  }

  void forward(std::int64_t t) {
    forget(t);
    const double* key = c_.k.data() + place(t) * c_.size;
    for (std::int64_t i = 0; i < c_.size; ++i) {
      for (std::size_t j = 0; j < added_.size(); ++j) state_[cell(i, j)] += key[i] * added_[j];
    }
  }

  // `state_` is the state before step t; `slope_` is the gradient of the state after it, and becomes that of the state
  // before it.
  void backward(std::int64_t t) {
    forget(t);
    const std::int64_t at = place(t);
    const double *key = c_.k.data() + at * c_.size, *value = c_.v.data() + at * c_.value_size;
    double* dkey = c_.dk.data() + at * c_.size;
    read_by_queries(t, key);
    std::fill(dadded_.begin(), dadded_.end(), 0.0);
    for (std::int64_t i = 0; i < c_.size; ++i) {
      for (std::size_t j = 0; j < added_.size(); ++j) {
        dkey[i] += slope_[cell(i, j)] * added_[j];
        dadded_[j] += slope_[cell(i, j)] * key[i];
      }
    }
    const double rate = c_.beta.empty() ? 1 : c_.beta[beta_at(t)];
    double drate = 0;
    for (std::size_t j = 0; j < added_.size(); ++j) {
      c_.dv[static_cast<std::size_t>(at * c_.value_size) + j] = rate * dadded_[j];
      drate += dadded_[j] * (value[j] - held_[j]);
    }
    if (!c_.beta.empty()) c_.dbeta[static_cast<std::size_t>(at)] = drate;
    for (std::int64_t i = 0; !c_.beta.empty() && i < c_.size; ++i) {
      for (std::size_t j = 0; j < added_.size(); ++j) {
        dkey[i] -= state_[cell(i, j)] * rate * dadded_[j];
        slope_[cell(i, j)] -= key[i] * rate * dadded_[j];
      }
    }
    for (std::int64_t i = 0; !c_.decay.empty() && i < c_.size; ++i) {
      const double factor = std::exp(c_.decay[decay_at(t, i)]);
      for (std::size_t j = 0; j < added_.size(); ++j) {
        c_.ddecay[decay_at(t, i)] += slope_[cell(i, j)] * state_[cell(i, j)];
        slope_[cell(i, j)] *= factor;
      }
    }
  }

  // Adds the gradient from the outputs of step t, which read state + k added^T.
  void read_by_queries(std::int64_t t, const double* key) {
    for (std::int64_t g = 0; g < c_.group; ++g) {
      const std::int64_t out = step(t) * c_.query_heads + head_ % c_.kv_heads * c_.group + g;
      const double *query = c_.q.data() + out * c_.size, *given = c_.dy.data() + out * c_.value_size;
      for (std::int64_t i = 0; i < c_.size; ++i) {
        double sum = 0;
        for (std::size_t j = 0; j < added_.size(); ++j) {
          sum += (state_[cell(i, j)] + key[i] * added_[j]) * given[j];
          slope_[cell(i, j)] += c_.scale * query[i] * given[j];
        }
        c_.dq[static_cast<std::size_t>(out * c_.size + i)] = c_.scale * sum;
      }
    }
  }

  std::size_t cell(std::int64_t i, std::size_t j) const { return static_cast<std::size_t>(i * c_.value_size) + j; }

  const KernelContext& context_;
  Call& c_;
  std::int64_t head_, cells_;
  Doubles state_, slope_, held_, added_, dadded_;
};

Call read_call(const KernelContext& context) {
  const auto values = [&](std::size_t i) { return context.has_input(i) ? read<double>(context.input(i)) : Doubles{}; };
  Call c{values(0), values(1), values(2), values(3), values(4), values(5), values(6), values(7)};
  c.query_heads = context.integer("q_num_heads");
  c.kv_heads = context.integer("kv_num_heads");
  const Shape& q = context.input(0).shape();
  c.time = q[1];
  c.size = q[2] / c.query_heads;
  c.value_size = context.input(2).shape()[2] / c.kv_heads;
  c.group = c.query_heads / c.kv_heads;
  c.chunk = std::clamp<std::int64_t>(context.integer("chunk_size"), 1, 1 << 16);
  c.decay_per_key = context.has_input(4) && context.input(4).shape()[2] == c.kv_heads * c.size;
  c.shared_beta = context.has_input(5) && context.input(5).shape()[2] == 1;
  const double scale = context.real("scale");
  c.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(c.size));
  c.dq.resize(c.q.size());
  c.dk.resize(c.k.size());
  c.dv.resize(c.v.size());
  c.dpast.resize(c.past.size());
  c.ddecay.resize(c.decay.size());
  c.dbeta.resize(c.beta.empty() ? 0 : static_cast<std::size_t>(q[0] * c.time * c.kv_heads));
  return c;
}

}  // namespace

void linear_attention_gradient(KernelContext& context) {
  Call c = read_call(context);
  context.parallel_for(context.input(0).shape()[0] * c.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t head = begin; head < end; ++head) HeadGradient(context, c, head).run();
  });
  if (c.shared_beta) {
    Doubles sums(c.beta.size());
    for (std::size_t i = 0; i < c.dbeta.size(); ++i) sums[i / static_cast<std::size_t>(c.kv_heads)] += c.dbeta[i];
    c.dbeta = std::move(sums);
  }
  const Doubles* results[] = {&c.dq, &c.dk, &c.dv, &c.dpast, &c.ddecay, &c.dbeta};
  for (std::size_t i = 0; i < std::size(results); ++i) {
    if (context.wants_output(i)) write(*results[i], context.output(i));
  }
}

}  // namespace tessera::backends::reference
