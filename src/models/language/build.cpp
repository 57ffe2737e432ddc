#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/numbers/checked.h"
#include "models/language/language_model.h"
#include "ops/core/builder.h"

namespace tessera::models {
namespace {

using ir::ValueId;

class StepBuilder {
 public:
  StepBuilder(const LanguageConfig& config, const WeightSource& weights, const LanguageBuildOptions& options)
      : config_(config), weights_(weights), options_(options), ops_(graph_) {}

  ir::Graph build() {
    const DType type = options_.cache_type;
    require(type == DType::f32 || type == DType::f16 || type == DType::i8, ErrorKind::invalid_argument,
            "a cache of {}, expected f32, f16 or i8", name_of(type));
    require(options_.pages >= 1, ErrorKind::invalid_argument, "a cache of {} pages, expected at least 1",
            options_.pages);
    const ValueId ids = input("ids", {ir::Dim::symbol("rows")});
    positions_ = input("positions", {ir::Dim::symbol("rows")});
    sequence_ = input("sequence", {ir::Dim::symbol("rows")});
    pages_ = input("pages", {ir::Dim::symbol("sequences"), ir::Dim::symbol("columns")});
    const ValueId wanted = input("wanted", {ir::Dim::symbol("wanted")});
    const LanguageWeight embedding = matrix("token_embd", 0, config_.hidden);
    check_head_size();
    for (const RotaryTable& table : config_.rotary) add_rotary(table);
    const ValueId table = bytes_of("token_embd.weight", embedding);
    ValueId x = ops_.add("tessera::BlockGather", {table, ids}, block_attributes(embedding));
    if (config_.embedding_scale != 1) x = ops_.add("Mul", {x, ops_.scalar(config_.embedding_scale)});
    for (std::size_t i = 0; i < config_.layers.size(); ++i) x = layer(i, x);

    ops_.set_name_prefix("head/");
    x = ops_.add("Gather", {x, wanted}, {{"axis", std::int64_t{0}}});
    x = norm("output_norm", x, config_.hidden);
    const bool is_tied = !weights_.find("output.weight").has_value();
    ValueId logits = is_tied ? product(table, embedding, x, "") : linear("output", x, embedding.rows, config_.hidden);
    if (config_.logit_softcap > 0) logits = softcapped(logits, config_.logit_softcap);
    graph_.value(logits).name = "logits";
    graph_.add_output(logits);
    return std::move(graph_);
  }

 private:
  ValueId input(const std::string& name, ir::Dims dims) {
    return graph_.add_input(name, ir::ValueType::tensor(DType::i64, std::move(dims)));
  }

  // --- weights
  LanguageWeight weight(const std::string& name, std::int64_t rows, std::int64_t columns) const {
    const std::optional<LanguageWeight> found = weights_.find(name);
    require(found.has_value(), ErrorKind::invalid_model, "the model has no weight '{}'", name);
    require((rows == 0 || found->rows == rows) && found->columns == columns, ErrorKind::invalid_model,
            "the weight '{}' has {} rows of {}, expected {} of {}", name, found->rows, found->columns,
            rows == 0 ? std::string("any number") : std::to_string(rows), columns);
    return *found;
  }
  LanguageWeight matrix(const std::string& name, std::int64_t rows, std::int64_t columns) const {
    return weight(name + ".weight", rows, columns);
  }
  // Tables of positions grow with the size of a head, which a file may state without having such heads.
  void check_head_size() const {
    const std::int64_t keys = config_.kv_heads * config_.head_size;
    if (weights_.find("blk.0.attn_qkv.weight"))
      matrix("blk.0.attn_qkv", config_.heads * config_.head_size + keys + config_.kv_heads * config_.value_size,
             config_.hidden);
    else matrix("blk.0.attn_k", keys, config_.hidden);
  }
  // Bytes of blocks, as they lie in the file.
  ValueId bytes_of(const std::string& name, const LanguageWeight& given) { return ops_.constant(given.tensor, name); }
  static ir::Attributes block_attributes(const LanguageWeight& given) {
    return {{"format", std::string(base::layout_of(given.format).name)}, {"N", given.rows}, {"K", given.columns}};
  }
  // A vector in float32.
  ValueId vector(const std::string& name, std::int64_t count) {
    const LanguageWeight given = weight(name, 1, count);
    Tensor values(DType::f32, {count});
    base::dequantize(given.format, std::as_bytes(given.tensor.values<std::uint8_t>()), values.mutable_values<float>());
    return ops_.constant(std::move(values), name);
  }

  // --- layers
  ValueId product(ValueId table, const LanguageWeight& given, ValueId x, const std::string& bias) {
    ir::Attributes attributes = block_attributes(given);
    if (options_.exact) attributes.insert({"exact", std::int64_t{1}});
    std::vector<ValueId> operands{x, table};
    if (!bias.empty() && weights_.find(bias)) operands.push_back(vector(bias, given.rows));
    return ops_.add("tessera::BlockLinear", std::move(operands), std::move(attributes));
  }
  ValueId linear(const std::string& name, ValueId x, std::int64_t rows, std::int64_t columns) {
    const LanguageWeight given = matrix(name, rows, columns);
    return product(bytes_of(name + ".weight", given), given, x, name + ".bias");
  }
  ValueId norm(const std::string& name, ValueId x, std::int64_t size) {
    return ops_.add("RMSNormalization", {x, vector(name + ".weight", size)},
                    {{"axis", std::int64_t{-1}}, {"epsilon", static_cast<float>(config_.epsilon)}});
  }
  ValueId softcapped(ValueId x, double cap) {
    const ValueId bounded = ops_.add("Tanh", {ops_.add("Div", {x, ops_.scalar(cap)})});
    return ops_.add("Mul", {bounded, ops_.scalar(cap)});
  }

  // Cosines and sines of all positions, computed in double.
  void add_rotary(const RotaryTable& table) {
    const std::int64_t pairs = config_.rotated / 2;
    Tensor cosines(DType::f32, {config_.context, pairs}), sines(DType::f32, {config_.context, pairs});
    for (std::int64_t i = 0; i < pairs; ++i) {
      const double divisor = table.divisors.empty() ? 1 : table.divisors[static_cast<std::size_t>(i)];
      const double frequency =
          std::pow(table.base, -2.0 * static_cast<double>(i) / static_cast<double>(config_.rotated)) / divisor /
          table.linear_factor;
      for (std::int64_t p = 0; p < config_.context; ++p) {
        const double angle = static_cast<double>(p) * frequency;
        cosines.mutable_data<float>()[p * pairs + i] = static_cast<float>(std::cos(angle) * table.magnitude);
        sines.mutable_data<float>()[p * pairs + i] = static_cast<float>(std::sin(angle) * table.magnitude);
      }
    }
    const std::string suffix = std::to_string(rotary_.size());
    // The rows of the step are gathered once for all layers.
    const auto rows_of = [&](Tensor all, const char* name) {
      const ValueId table_value = ops_.constant(std::move(all), name + suffix);
      const ValueId gathered = ops_.add("Gather", {table_value, positions_}, {{"axis", std::int64_t{0}}});
      return ops_.add("Unsqueeze", {gathered, ops_.integers({0})});
    };
    const ValueId cosine_rows = rows_of(std::move(cosines), "cosines.");
    rotary_.push_back({cosine_rows, rows_of(std::move(sines), "sines.")});
  }
  ValueId rotated(ValueId x, std::int64_t heads, const LanguageLayer& layer) {
    const auto& [cosines, sines] = rotary_[layer.rotary];
    const ValueId one_batch = ops_.add("Unsqueeze", {x, ops_.integers({0})});
    const ValueId turned = ops_.add("RotaryEmbedding", {one_batch, cosines, sines},
                                    {{"num_heads", heads},
                                     {"interleaved", std::int64_t{config_.turns_neighbours ? 1 : 0}},
                                     {"rotary_embedding_dim", config_.rotated}});
    return ops_.add("Squeeze", {turned, ops_.integers({0})});
  }
  // The norm of each head, where the model has one.
  ValueId head_norm(const std::string& name, ValueId x, std::int64_t heads) {
    if (!weights_.find(name + ".weight")) return x;
    const ValueId apart = ops_.add("Reshape", {x, ops_.integers({-1, heads, config_.head_size})});
    return ops_.add("Reshape", {norm(name, apart, config_.head_size), ops_.integers({-1, heads * config_.head_size})});
  }

  struct Projections {
    ValueId q, k, v;
  };
  Projections project(const std::string& block, ValueId x) {
    const std::int64_t q = config_.heads * config_.head_size, k = config_.kv_heads * config_.head_size,
                       v = config_.kv_heads * config_.value_size;
    if (!weights_.find(block + "attn_qkv.weight"))
      return {linear(block + "attn_q", x, q, config_.hidden), linear(block + "attn_k", x, k, config_.hidden),
              linear(block + "attn_v", x, v, config_.hidden)};
    const std::vector<ValueId> parts =
        ops_.add_multi("Split", {linear(block + "attn_qkv", x, q + k + v, config_.hidden), ops_.integers({q, k, v})}, 3,
                       {{"axis", std::int64_t{1}}});
    return {parts[0], parts[1], parts[2]};
  }

  // A cache and its scales, which are invalid for f16.
  struct Cache {
    std::string name, scales_name;
    ValueId value, scales;
  };
  Cache add_cache(const std::string& name, std::int64_t size) {
    Cache cache{name, name + ".scales", {}, {}};
    const Shape shape{options_.pages, config_.kv_heads, kCachePageRows, size};
    cache.value = graph_.add_variable(cache.name, zeros(options_.cache_type, shape));
    if (options_.cache_type == DType::i8)
      cache.scales = graph_.add_variable(cache.scales_name, zeros(DType::f32, {shape[0], shape[1], shape[2]}));
    return cache;
  }
  // Zeros that take no memory until they are read. Equal caches begin with the same ones.
  Tensor zeros(DType type, const Shape& shape) {
    for (const Tensor& made : zeros_)
      if (made.dtype() == type && made.shape() == shape) return made;
    const std::int64_t bytes = byte_count(type, shape);
    const std::shared_ptr<void> memory(std::calloc(static_cast<std::size_t>(bytes) + 64, 1), std::free);
    require(memory != nullptr, ErrorKind::over_budget, "a cache of {} bytes cannot be had", bytes);
    void* at = memory.get();
    std::size_t room = static_cast<std::size_t>(bytes) + 64;
    std::align(64, static_cast<std::size_t>(bytes), at, room);
    return zeros_.emplace_back(type, shape, at, memory);
  }
  void append(const Cache& cache, ValueId rows) {
    std::vector<ValueId> operands{cache.value, rows, pages_, positions_, sequence_};
    const bool has_scales = cache.scales.valid();
    if (has_scales) operands.push_back(cache.scales);
    const std::vector<ValueId> next = ops_.add_multi("tessera::AppendRows", std::move(operands), has_scales ? 2 : 1);
    graph_.set_variable_update(cache.name, next[0]);
    if (has_scales) graph_.set_variable_update(cache.scales_name, next[1]);
  }

  ValueId attention(std::size_t index, const std::string& block, ValueId x) {
    const LanguageLayer& layer = config_.layers[index];
    Projections made = project(block, x);
    made.q = rotated(head_norm(block + "attn_q_norm", made.q, config_.heads), config_.heads, layer);
    made.k = rotated(head_norm(block + "attn_k_norm", made.k, config_.kv_heads), config_.kv_heads, layer);
    const Cache keys = add_cache("key_cache." + std::to_string(index), config_.head_size),
                values = add_cache("value_cache." + std::to_string(index), config_.value_size);
    std::vector<ValueId> operands{made.q, made.k, made.v, keys.value, values.value, pages_, positions_, sequence_};
    if (keys.scales.valid()) operands.insert(operands.end(), {ValueId(), keys.scales, values.scales});
    const ValueId seen = ops_.add("tessera::CacheAttention", std::move(operands),
                                  {{"heads", config_.heads},
                                   {"kv_heads", config_.kv_heads},
                                   {"scale", static_cast<float>(config_.query_scale)},
                                   {"window", layer.window},
                                   {"softcap", static_cast<float>(config_.score_softcap)}});
    append(keys, made.k);
    append(values, made.v);
    return linear(block + "attn_output", seen, config_.hidden, config_.heads * config_.value_size);
  }

  ValueId feed_forward(const std::string& block, ValueId x) {
    const std::int64_t wide = config_.feed_forward;
    ValueId gate, up;
    if (weights_.find(block + "ffn_gate.weight")) {
      gate = linear(block + "ffn_gate", x, wide, config_.hidden);
      up = linear(block + "ffn_up", x, wide, config_.hidden);
    } else {
      const std::vector<ValueId> parts =
          ops_.add_multi("Split", {linear(block + "ffn_up", x, 2 * wide, config_.hidden), ops_.integers({wide, wide})},
                         2, {{"axis", std::int64_t{1}}});
      gate = parts[0], up = parts[1];
    }
    const ValueId active = config_.activation == FeedForwardActivation::silu
                               ? ops_.add("Swish", {gate})
                               : ops_.add("Gelu", {gate}, {{"approximate", std::string("tanh")}});
    return linear(block + "ffn_down", ops_.add("Mul", {active, up}), config_.hidden, wide);
  }

  // The norm behind a block, where the model has one.
  ValueId after(const std::string& name, ValueId x) {
    return weights_.find(name + ".weight") ? norm(name, x, config_.hidden) : x;
  }
  ValueId layer(std::size_t index, ValueId x) {
    const std::string block = "blk." + std::to_string(index) + ".";
    ops_.set_name_prefix("layer" + std::to_string(index) + "/");
    const ValueId seen = attention(index, block, norm(block + "attn_norm", x, config_.hidden));
    x = ops_.add("Add", {x, after(block + "post_attention_norm", seen)});
    const ValueId wide = feed_forward(block, norm(block + "ffn_norm", x, config_.hidden));
    return ops_.add("Add", {x, after(block + "post_ffw_norm", wide)});
  }

  const LanguageConfig& config_;
  const WeightSource& weights_;
  const LanguageBuildOptions& options_;
  ir::Graph graph_;
  ops::GraphBuilder ops_;
  ValueId positions_, sequence_, pages_;
  std::vector<Tensor> zeros_;
  std::vector<std::pair<ValueId, ValueId>> rotary_;  // cosines and sines of the rows
};

}  // namespace

std::int64_t vocabulary_of(const LanguageConfig& config, const WeightSource& weights) {
  const std::optional<LanguageWeight> embedding = weights.find("token_embd.weight");
  require(embedding && embedding->columns == config.hidden, ErrorKind::invalid_model,
          "the model has no weight 'token_embd.weight' with rows of {}", config.hidden);
  require(config.stated_vocabulary == 0 || config.stated_vocabulary == embedding->rows, ErrorKind::invalid_model,
          "the configuration of the model states {} tokens, but 'token_embd.weight' has {} rows",
          config.stated_vocabulary, embedding->rows);
  return embedding->rows;
}

ir::Graph build_language_model(const LanguageConfig& config, const WeightSource& weights,
                               const LanguageBuildOptions& options) {
  return StepBuilder(config, weights, options).build();
}

}  // namespace tessera::models
