#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "models/language/architectures.h"

namespace tessera::models {
namespace {

constexpr std::int64_t kMostContext = std::int64_t{1} << 24, kMostWindow = std::int64_t{1} << 32;

std::int64_t size_of(const ConfigValues& values, std::string_view key, std::int64_t most,
                     std::optional<std::int64_t> otherwise = std::nullopt) {
  return integer_of(values, key, 1, most, otherwise);
}

// A size that some models state for each layer; one for all of them is supported.
std::int64_t uniform_size(const ConfigValues& values, std::string_view key, std::int64_t most) {
  const std::vector<std::int64_t> each = values.integers(key);
  if (each.size() < 2) return size_of(values, key, most, each.empty() ? std::nullopt : std::optional(each[0]));
  require(std::ranges::all_of(each, [&](std::int64_t size) { return size == each[0]; }), ErrorKind::unsupported,
          "'{}' of the model differs from layer to layer", key);
  require(each[0] >= 1 && each[0] <= most, ErrorKind::invalid_model, "'{}' of the model is {}, expected 1 to {}", key,
          each[0], most);
  return each[0];
}

RotaryTable read_rotary(const ConfigValues& values) {
  RotaryTable table;
  table.base = number_of(values, "rope.freq_base", kSmallestNumber, 10000);
  const std::string scaling = values.text("rope.scaling.type").value_or("linear");
  if (scaling == "linear") {
    const double older = number_of(values, "rope.scale_linear", kSmallestNumber, 1);  // a key that older files have
    table.linear_factor = number_of(values, "rope.scaling.factor", kSmallestNumber, older);
  } else {
    // The divisors of the frequencies stand among the weights of the latter two.
    require(scaling == "none" || scaling == "llama3" || scaling == "longrope", ErrorKind::unsupported,
            "the scaling of positions '{}' of the model, expected none, linear, llama3 or longrope",
            base::shown(scaling));
  }
  return table;
}

// Divisors of the frequencies, where the file has them: one list (Llama 3), or one for long and one for short contexts
// ("LongRoPE", arXiv:2402.13753).
void read_divisors(RotaryTable& table, const LanguageConfig& config, const ConfigValues& values,
                   const WeightSource& weights, std::int64_t trained) {
  table.divisors = vector_of(weights, "rope_freqs.weight", config.rotated / 2);
  if (!table.divisors.empty()) return;
  const std::int64_t original = values.integer("rope.scaling.original_context_length").value_or(trained);
  table.divisors =
      vector_of(weights, config.context > original ? "rope_factors_long.weight" : "rope_factors_short.weight",
                config.rotated / 2);
  if (table.divisors.empty()) return;
  const double factor = original < trained ? static_cast<double>(trained) / static_cast<double>(original)
                                           : number_of(values, "rope.scaling.factor", kSmallestNumber, 1);
  const double usual =
      factor > 1 && original > 1 ? std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(original))) : 1;
  table.magnitude = number_of(values, "rope.scaling.attn_factor", kSmallestNumber, usual);
}

void check_divisors(const RotaryTable& table) {
  for (const double divisor : table.divisors)
    require(divisor >= kSmallestNumber && divisor <= kLargestNumber, ErrorKind::invalid_model,
            "a divisor of the frequencies of positions is {}, expected {:.0e} to {:.0e}", divisor, kSmallestNumber,
            kLargestNumber);
}

std::int64_t checked_window(std::int64_t window) {
  require(window >= 0 && window <= kMostWindow, ErrorKind::invalid_model,
          "a window of attention of the model is {}, expected 0 to {}", window, kMostWindow);
  return window;
}

}  // namespace

std::int64_t integer_of(const ConfigValues& values, std::string_view key, std::int64_t least, std::int64_t most,
                        std::optional<std::int64_t> otherwise) {
  std::optional<std::int64_t> found = values.integer(key);
  if (!found) found = otherwise;
  require(found.has_value(), ErrorKind::invalid_model, "the configuration of the model lacks '{}'", key);
  require(*found >= least && *found <= most, ErrorKind::invalid_model, "'{}' of the model is {}, expected {} to {}",
          key, *found, least, most);
  return *found;
}

double number_of(const ConfigValues& values, std::string_view key, double least, double otherwise) {
  const double found = values.number(key).value_or(otherwise);
  require(found >= least && found <= kLargestNumber, ErrorKind::invalid_model,
          "'{}' of the model is {}, expected {} to {}", key, found, least, kLargestNumber);
  return found;
}

std::int64_t window_of(const ConfigValues& values, std::int64_t otherwise) {
  return checked_window(values.integer("attention.sliding_window").value_or(otherwise));
}

std::span<const LanguageArchitecture> language_architecture_table() {
  static constexpr LanguageArchitecture table[] = {
      {"llama", adapt_llama},   {"mistral", adapt_llama}, {"qwen2", adapt_qwen}, {"qwen3", adapt_qwen},
      {"gemma2", adapt_gemma2}, {"gemma3", adapt_gemma3}, {"phi3", adapt_phi3},
  };
  return table;
}

std::vector<std::string_view> language_architectures() {
  std::vector<std::string_view> names;
  for (const LanguageArchitecture& each : language_architecture_table()) names.push_back(each.name);
  return names;
}

std::vector<double> vector_of(const WeightSource& weights, std::string_view name, std::int64_t count) {
  const std::optional<LanguageWeight> weight = weights.find(name);
  if (!weight) return {};
  require(weight->rows == 1 && weight->columns == count && base::layout_of(weight->format).elements == 1,
          ErrorKind::invalid_model, "'{}' is {} rows of {} ({}), expected one of {} numbers", name, weight->rows,
          weight->columns, base::layout_of(weight->format).name, count);
  std::vector<float> values(static_cast<std::size_t>(count));
  base::dequantize(weight->format, std::as_bytes(weight->tensor.values<std::uint8_t>()), values);
  return {values.begin(), values.end()};
}

LanguageConfig read_language_config(const ConfigValues& values, const WeightSource& weights, std::int64_t context) {
  LanguageConfig config;
  config.architecture = values.architecture();
  const auto table = language_architecture_table();
  const auto found = std::ranges::find(table, config.architecture, &LanguageArchitecture::name);
  require(found != table.end(), ErrorKind::unsupported, "the model's architecture is '{}'; these are supported: {}",
          base::shown(config.architecture), fmt::join(language_architectures(), ", "));
  config.layers.resize(static_cast<std::size_t>(size_of(values, "block_count", kMostLayers)));
  config.hidden = size_of(values, "embedding_length", kMostSize);
  config.feed_forward = uniform_size(values, "feed_forward_length", kMostSize);
  config.heads = uniform_size(values, "attention.head_count", kMostSize);
  config.kv_heads = values.integers("attention.head_count_kv").empty()
                        ? config.heads
                        : uniform_size(values, "attention.head_count_kv", kMostSize);
  require(config.heads % config.kv_heads == 0, ErrorKind::invalid_model,
          "the model has {} query heads, which are no multiple of its {} key heads", config.heads, config.kv_heads);
  config.head_size = size_of(values, "attention.key_length", kMostSize, config.hidden / config.heads);
  config.value_size = size_of(values, "attention.value_length", kMostSize, config.head_size);
  config.rotated = size_of(values, "rope.dimension_count", config.head_size, config.head_size);
  require(config.rotated % 2 == 0, ErrorKind::invalid_model, "'rope.dimension_count' of the model is {}, which is odd",
          config.rotated);
  config.stated_vocabulary = values.integer("stated_vocabulary").value_or(0);
  const std::int64_t trained = size_of(values, "context_length", kMostContext);
  require(context >= 0 && context <= trained, ErrorKind::invalid_argument,
          "a context of {} tokens, but the model was trained for {}", context, trained);
  config.context = context > 0 ? context : trained;
  config.epsilon = number_of(values, "attention.layer_norm_rms_epsilon", 0, 1e-5);
  config.query_scale = 1 / std::sqrt(static_cast<double>(config.head_size));
  config.rotary = {read_rotary(values)};
  read_divisors(config.rotary[0], config, values, weights, trained);
  found->adapt(config, values, weights);
  const std::vector<std::int64_t> windows = values.integers("attention.layer_windows");
  require(windows.empty() || windows.size() == config.layers.size(), ErrorKind::invalid_model,
          "the model states windows for {} layers, but it has {}", windows.size(), config.layers.size());
  for (std::size_t i = 0; i < windows.size(); ++i) {
    config.layers[i].window = checked_window(windows[i]);
    // Where there are two tables of positions, the second one is for layers with a window.
    if (config.rotary.size() > 1) config.layers[i].rotary = windows[i] > 0 ? 1 : 0;
  }
  for (const RotaryTable& table : config.rotary) check_divisors(table);
  return config;
}

}  // namespace tessera::models
