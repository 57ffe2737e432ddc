// Small random language models in memory, of any architecture, and their logits in double precision.
#pragma once

#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/numbers/half.h"
#include "models/language/language_model.h"

namespace tessera::test {

// Configuration and weights by the names of GGUF files. A test changes them before a model is built from them.
struct TinyLanguageModel final : models::ConfigValues, models::WeightSource {
  std::string name = "llama";
  std::map<std::string, double, std::less<>> numbers;
  std::map<std::string, std::string, std::less<>> texts;
  std::map<std::string, std::vector<std::int64_t>, std::less<>> lists;
  bool neighbours = false;
  std::map<std::string, models::LanguageWeight, std::less<>> weights;

  std::string architecture() const override { return name; }
  std::optional<double> number(std::string_view key) const override { return found<double>(numbers, key); }
  std::optional<std::string> text(std::string_view key) const override { return found<std::string>(texts, key); }
  std::optional<std::int64_t> integer(std::string_view key) const override {
    const std::optional<double> value = number(key);
    return value ? std::optional(static_cast<std::int64_t>(*value)) : std::nullopt;
  }
  std::vector<std::int64_t> integers(std::string_view key) const override {
    if (const auto list = lists.find(key); list != lists.end()) return list->second;
    const std::optional<std::int64_t> value = integer(key);
    return value ? std::vector{*value} : std::vector<std::int64_t>();
  }
  bool turns_neighbours() const override { return neighbours; }
  std::optional<models::LanguageWeight> find(std::string_view key) const override {
    return found<models::LanguageWeight>(weights, key);
  }

  // A random matrix of f32, or of q8_0 with a scale of each block.
  void add(const std::string& key, std::int64_t rows, std::int64_t columns, base::BlockFormat format, float spread,
           float mean = 0) {
    std::uniform_real_distribution<float> draw(mean - spread, mean + spread);
    const std::int64_t bytes = rows * base::row_bytes(format, columns);
    Tensor tensor(DType::u8, {bytes});
    auto* const to = static_cast<std::uint8_t*>(tensor.mutable_raw());
    if (format == base::BlockFormat::f32) {
      for (std::int64_t i = 0; i < rows * columns; ++i) {
        const float value = draw(random_);
        std::memcpy(to + i * 4, &value, 4);
      }
    } else {
      const std::int64_t block = base::layout_of(format).bytes;
      for (std::int64_t i = 0; i < bytes; ++i) to[i] = static_cast<std::uint8_t>(random_());
      for (std::int64_t i = 0; i < bytes; i += block) {
        const f16_t scale = base::to_f16(spread / 127 * (0.5f + static_cast<float>(random_() % 100) / 100));
        std::memcpy(to + i, &scale, 2);
      }
    }
    weights[key] = {std::move(tensor), format, rows, columns};
  }

 private:
  template <typename T, typename Map>
  static std::optional<T> found(const Map& map, std::string_view key) {
    const auto at = map.find(key);
    return at != map.end() ? std::optional<T>(at->second) : std::nullopt;
  }
  std::mt19937 random_{7};
};

struct TinySizes {
  std::int64_t vocabulary = 61, hidden = 52, wide = 75, heads = 4, kv_heads = 2, head_size = 18, layers = 2,
               context = 128;
  base::BlockFormat format = base::BlockFormat::f32;  // of the matrices: f32 or q8_0
  bool tied = false;
};

// A model with the weights that files of the architecture have.
inline TinyLanguageModel tiny_language_model(const std::string& architecture, const TinySizes& sizes = {}) {
  TinyLanguageModel model;
  model.name = architecture;
  for (const auto& [key, value] : {std::pair{"block_count", sizes.layers},
                                   {"embedding_length", sizes.hidden},
                                   {"feed_forward_length", sizes.wide},
                                   {"attention.head_count", sizes.heads},
                                   {"attention.head_count_kv", sizes.kv_heads},
                                   {"attention.key_length", sizes.head_size},
                                   {"context_length", sizes.context}})
    model.numbers[key] = static_cast<double>(value);
  const std::int64_t q = sizes.heads * sizes.head_size, k = sizes.kv_heads * sizes.head_size;
  const bool is_gemma = architecture.starts_with("gemma"), is_joint = architecture == "phi3";
  const auto matrix = [&](const std::string& key, std::int64_t rows, std::int64_t columns) {
    model.add(key + ".weight", rows, columns, sizes.format, 1.5f / std::sqrt(static_cast<float>(columns)));
  };
  const auto vector = [&](const std::string& key, std::int64_t count, float mean) {
    model.add(key, 1, count, base::BlockFormat::f32, 0.3f, mean);
  };
  model.add("token_embd.weight", sizes.vocabulary, sizes.hidden, sizes.format, 1);
  for (std::int64_t i = 0; i < sizes.layers; ++i) {
    const std::string block = "blk." + std::to_string(i) + ".";
    vector(block + "attn_norm.weight", sizes.hidden, 1);
    vector(block + "ffn_norm.weight", sizes.hidden, 1);
    if (is_joint) {
      matrix(block + "attn_qkv", q + 2 * k, sizes.hidden);
      matrix(block + "ffn_up", 2 * sizes.wide, sizes.hidden);
    } else {
      for (const auto& [part, rows] : {std::pair{"attn_q", q}, {"attn_k", k}, {"attn_v", k}}) {
        matrix(block + part, rows, sizes.hidden);
        if (architecture == "qwen2") vector(block + part + ".bias", rows, 0);
      }
      matrix(block + "ffn_gate", sizes.wide, sizes.hidden);
      matrix(block + "ffn_up", sizes.wide, sizes.hidden);
    }
    if (architecture == "qwen3" || architecture == "gemma3") {
      vector(block + "attn_q_norm.weight", sizes.head_size, 1);
      vector(block + "attn_k_norm.weight", sizes.head_size, 1);
    }
    if (is_gemma) {
      vector(block + "post_attention_norm.weight", sizes.hidden, 1);
      vector(block + "post_ffw_norm.weight", sizes.hidden, 1);
    }
    matrix(block + "attn_output", sizes.hidden, q);
    matrix(block + "ffn_down", sizes.hidden, sizes.wide);
  }
  vector("output_norm.weight", sizes.hidden, 1);
  if (!is_gemma && !sizes.tied) matrix("output", sizes.vocabulary, sizes.hidden);
  return model;
}

// The logits of all tokens, [tokens, vocabulary]: the whole sequence at once, without a cache, loops over elements.
class LanguageReference {
 public:
  using Row = std::vector<double>;
  LanguageReference(const models::LanguageConfig& config, const models::WeightSource& weights)
      : config_(config), weights_(weights) {}

  std::vector<Row> logits(const std::vector<std::int64_t>& tokens) const {
    const std::vector<Row> embedding = matrix("token_embd.weight");
    std::vector<Row> x;
    for (const std::int64_t token : tokens) {
      x.push_back(embedding[static_cast<std::size_t>(token)]);
      for (double& value : x.back()) value *= config_.embedding_scale;
    }
    for (std::size_t i = 0; i < config_.layers.size(); ++i) layer(i, x);
    const bool is_tied = !weights_.find("output.weight");
    for (Row& row : x) {
      row = product(is_tied ? "token_embd" : "output", norm("output_norm", row));
      for (double& value : row) value = capped(value, config_.logit_softcap);
    }
    return x;
  }

 private:
  std::vector<Row> matrix(const std::string& name) const {
    const models::LanguageWeight weight = weights_.find(name).value();
    std::vector<float> values(static_cast<std::size_t>(weight.rows * weight.columns));
    base::dequantize(weight.format, std::as_bytes(weight.tensor.values<std::uint8_t>()), values);
    std::vector<Row> rows;
    for (auto at = values.begin(); at != values.end(); at += weight.columns) rows.emplace_back(at, at + weight.columns);
    return rows;
  }
  Row product(const std::string& name, const Row& x) const {
    Row y;
    for (const Row& row : matrix(name + ".weight")) {
      double sum = 0;
      for (std::size_t i = 0; i < x.size(); ++i) sum += row[i] * x[i];
      y.push_back(sum);
    }
    if (weights_.find(name + ".bias")) {
      const Row bias = matrix(name + ".bias")[0];
      for (std::size_t i = 0; i < y.size(); ++i) y[i] += bias[i];
    }
    return y;
  }
  Row norm(const std::string& name, Row x) const {
    if (!weights_.find(name + ".weight")) return x;
    const Row weight = matrix(name + ".weight")[0];
    for (std::size_t begin = 0; begin < x.size(); begin += weight.size()) {  // of each head, or of the whole row
      double squares = 0;
      for (std::size_t i = 0; i < weight.size(); ++i) squares += x[begin + i] * x[begin + i];
      const double root = std::sqrt(squares / static_cast<double>(weight.size()) + config_.epsilon);
      for (std::size_t i = 0; i < weight.size(); ++i) x[begin + i] *= weight[i] / root;
    }
    return x;
  }
  static double capped(double x, double cap) { return cap > 0 ? cap * std::tanh(x / cap) : x; }

  void turn(Row& x, std::size_t position, const models::RotaryTable& table) const {
    const auto size = static_cast<std::size_t>(config_.head_size), half = static_cast<std::size_t>(config_.rotated / 2);
    for (std::size_t head = 0; head < x.size(); head += size) {
      for (std::size_t i = 0; i < half; ++i) {
        double angle = static_cast<double>(position) / table.linear_factor *
                       std::pow(table.base, -static_cast<double>(i) / static_cast<double>(half));
        if (!table.divisors.empty()) angle /= table.divisors[i];
        double& a = x[head + (config_.turns_neighbours ? 2 * i : i)];
        double& b = x[head + (config_.turns_neighbours ? 2 * i + 1 : i + half)];
        const double turned = (a * std::cos(angle) - b * std::sin(angle)) * table.magnitude;
        b = (b * std::cos(angle) + a * std::sin(angle)) * table.magnitude;
        a = turned;
      }
    }
  }

  static Row part(const Row& of, std::int64_t begin, std::int64_t count) {
    return {of.begin() + begin, of.begin() + begin + count};
  }
  void attention(std::size_t index, const std::string& block, std::vector<Row>& x) const {
    const models::LanguageLayer& layer = config_.layers[index];
    const auto size = static_cast<std::size_t>(config_.head_size);
    const std::int64_t wide_q = config_.heads * config_.head_size, wide_k = config_.kv_heads * config_.head_size;
    std::vector<Row> q, k, v;
    for (std::size_t t = 0; t < x.size(); ++t) {
      const Row normed = norm(block + "attn_norm", x[t]);
      if (weights_.find(block + "attn_qkv.weight")) {
        const Row all = product(block + "attn_qkv", normed);
        q.push_back(part(all, 0, wide_q)), k.push_back(part(all, wide_q, wide_k));
        v.push_back(part(all, wide_q + wide_k, wide_k));
      } else {
        q.push_back(product(block + "attn_q", normed)), k.push_back(product(block + "attn_k", normed));
        v.push_back(product(block + "attn_v", normed));
      }
      q[t] = norm(block + "attn_q_norm", q[t]), k[t] = norm(block + "attn_k_norm", k[t]);
      turn(q[t], t, config_.rotary[layer.rotary]), turn(k[t], t, config_.rotary[layer.rotary]);
    }
    const auto heads = static_cast<std::size_t>(config_.heads);
    const std::size_t group = heads / static_cast<std::size_t>(config_.kv_heads);
    for (std::size_t t = 0; t < x.size(); ++t) {
      Row seen(heads * size, 0.0);
      const auto window = static_cast<std::size_t>(layer.window);
      const std::size_t first = window > 0 && t + 1 > window ? t + 1 - window : 0;
      for (std::size_t h = 0; h < heads; ++h) {
        const std::size_t from = h / group * size;
        double sum = 0;
        Row weighted(size, 0.0);
        for (std::size_t p = first; p <= t; ++p) {
          double score = 0;
          for (std::size_t i = 0; i < size; ++i) score += q[t][h * size + i] * k[p][from + i];
          const double weight = std::exp(capped(score * config_.query_scale, config_.score_softcap));
          sum += weight;
          for (std::size_t i = 0; i < size; ++i) weighted[i] += weight * v[p][from + i];
        }
        for (std::size_t i = 0; i < size; ++i) seen[h * size + i] = weighted[i] / sum;
      }
      add(x[t], norm(block + "post_attention_norm", product(block + "attn_output", seen)));
    }
  }
  static void add(Row& to, const Row& row) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += row[i];
  }
  double activated(double x) const {
    constexpr double kRoot = 0.7978845608028654;  // of 2 / pi
    return config_.activation == models::FeedForwardActivation::silu
               ? x / (1 + std::exp(-x))
               : 0.5 * x * (1 + std::tanh(kRoot * (x + 0.044715 * x * x * x)));
  }
  void layer(std::size_t index, std::vector<Row>& x) const {
    const std::string block = "blk." + std::to_string(index) + ".";
    attention(index, block, x);
    for (Row& row : x) {
      const Row normed = norm(block + "ffn_norm", row);
      Row up = product(block + "ffn_up", normed), gate;
      if (weights_.find(block + "ffn_gate.weight")) {
        gate = product(block + "ffn_gate", normed);
      } else {
        gate = part(up, 0, config_.feed_forward), up = part(up, config_.feed_forward, config_.feed_forward);
      }
      for (std::size_t i = 0; i < up.size(); ++i) up[i] *= activated(gate[i]);
      add(row, norm(block + "post_ffw_norm", product(block + "ffn_down", up)));
    }
  }

  const models::LanguageConfig& config_;
  const models::WeightSource& weights_;
};

}  // namespace tessera::test
