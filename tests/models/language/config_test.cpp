#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"
#include "support/tiny_language_model.h"

namespace tessera::models::config_test {
namespace {

using test::tiny_language_model;
using test::TinyLanguageModel;
using test::TinySizes;

LanguageConfig read(const TinyLanguageModel& model, std::int64_t context = 0) {
  return read_language_config(model, model, context);
}

void expect_refused(const TinyLanguageModel& model, ErrorKind kind, const std::string& message) {
  test::expect_error(kind, message, [&] { read(model); });
}

std::vector<std::int64_t> windows_of(const LanguageConfig& config) {
  std::vector<std::int64_t> windows;
  for (const LanguageLayer& layer : config.layers) windows.push_back(layer.window);
  return windows;
}

TEST(LanguageConfig, SizesComeFromTheFile) {
  TinyLanguageModel model = tiny_language_model("qwen3");
  model.numbers["attention.layer_norm_rms_epsilon"] = 1e-3;
  const LanguageConfig config = read(model, 100);
  EXPECT_EQ(config.hidden, 52);
  EXPECT_EQ(config.feed_forward, 75);
  EXPECT_EQ(config.heads, 4);
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.head_size, 18);
  EXPECT_EQ(config.value_size, 18);
  EXPECT_EQ(config.rotated, 18);
  EXPECT_EQ(config.context, 100);
  EXPECT_EQ(config.epsilon, 1e-3);
  EXPECT_EQ(config.query_scale, 1 / std::sqrt(18.0));
  EXPECT_EQ(vocabulary_of(config, model), 61);
  model.numbers.erase("attention.key_length");  // the hidden size per head
  model.numbers["attention.head_count"] = 2;
  EXPECT_EQ(read(model).head_size, 26);
}

TEST(LanguageConfig, HeadsAreReadFromListsToo) {
  TinyLanguageModel model = tiny_language_model("llama");
  model.lists["attention.head_count_kv"] = {2, 2};
  EXPECT_EQ(read(model).kv_heads, 2);
  model.lists["attention.head_count_kv"] = {2, 4};
  expect_refused(model, ErrorKind::unsupported, "'attention.head_count_kv' of the model differs from layer to layer");
}

TEST(LanguageConfig, LayersWithWindows) {
  TinySizes sizes;
  sizes.layers = 7;
  TinyLanguageModel gemma2 = tiny_language_model("gemma2", sizes);
  gemma2.numbers["attention.sliding_window"] = 9;
  EXPECT_EQ(windows_of(read(gemma2)), (std::vector<std::int64_t>{9, 0, 9, 0, 9, 0, 9}));
  TinyLanguageModel gemma3 = tiny_language_model("gemma3", sizes);
  gemma3.numbers["attention.sliding_window"] = 9;
  const LanguageConfig config = read(gemma3);
  EXPECT_EQ(windows_of(config), (std::vector<std::int64_t>{9, 9, 9, 9, 9, 0, 9}));
  EXPECT_EQ(config.layers[4].rotary, 1u);
  EXPECT_EQ(config.layers[5].rotary, 0u);
  gemma3.lists["attention.layer_windows"] = {0, 3, 0, 0, 0, 0, 0};
  EXPECT_EQ(windows_of(read(gemma3)), (std::vector<std::int64_t>{0, 3, 0, 0, 0, 0, 0}));
  EXPECT_EQ(read(gemma3).layers[1].rotary, 1u);
  gemma3.lists["attention.layer_windows"] = {0, 3};
  expect_refused(gemma3, ErrorKind::invalid_model, "the model states windows for 2 layers, but it has 7");
}

// LongRoPE: which factors hold depends on the context that is asked for; the magnitude on what was trained.
TEST(LanguageConfig, FactorsOfLongContexts) {
  TinyLanguageModel model = tiny_language_model("phi3");
  model.texts["rope.scaling.type"] = "longrope";
  model.numbers["rope.scaling.original_context_length"] = 32;
  model.add("rope_factors_long.weight", 1, 9, base::BlockFormat::f32, 0, 5);
  model.add("rope_factors_short.weight", 1, 9, base::BlockFormat::f32, 0, 2);
  EXPECT_EQ(read(model).rotary[0].divisors, std::vector<double>(9, 5.0));
  EXPECT_EQ(read(model, 32).rotary[0].divisors, std::vector<double>(9, 2.0));
  EXPECT_DOUBLE_EQ(read(model, 32).rotary[0].magnitude, std::sqrt(1 + std::log(4.0) / std::log(32.0)));
  model.add("rope_factors_long.weight", 1, 8, base::BlockFormat::f32, 0, 5);
  expect_refused(model, ErrorKind::invalid_model,
                 "'rope_factors_long.weight' is 1 rows of 8 (f32), expected one of 9 numbers");
}

// Files of any architecture may scale positions, which none may leave out without a word.
TEST(LanguageConfig, EveryArchitectureScalesPositions) {
  for (const std::string_view architecture : language_architectures()) {
    SCOPED_TRACE(architecture);
    TinyLanguageModel divided = tiny_language_model(std::string(architecture));
    divided.add("rope_freqs.weight", 1, 9, base::BlockFormat::f32, 0, 3);
    EXPECT_EQ(read(divided).rotary[0].divisors, std::vector<double>(9, 3.0));
    TinyLanguageModel longer = tiny_language_model(std::string(architecture));
    longer.numbers["rope.scaling.original_context_length"] = 32;
    longer.add("rope_factors_long.weight", 1, 9, base::BlockFormat::f32, 0, 5);
    EXPECT_EQ(read(longer).rotary[0].divisors, std::vector<double>(9, 5.0));
    TinyLanguageModel linear = tiny_language_model(std::string(architecture));
    linear.numbers["rope.scale_linear"] = 4;  // the key of older files, which state no type
    EXPECT_EQ(read(linear).rotary[0].linear_factor, 4);
    linear.numbers["rope.scaling.factor"] = 2;
    EXPECT_EQ(read(linear).rotary[0].linear_factor, 2);
  }
}

TEST(LanguageConfig, Gemma3CapsLogitsWhereItSaysSo) {
  TinyLanguageModel model = tiny_language_model("gemma3");
  EXPECT_EQ(read(model).logit_softcap, 0);
  model.numbers["final_logit_softcapping"] = 30;
  EXPECT_EQ(read(model).logit_softcap, 30);
}

TEST(LanguageConfig, RefusesByName) {
  TinyLanguageModel model = tiny_language_model("llama");
  model.name = "mamba";
  expect_refused(model, ErrorKind::unsupported,
                 "the model's architecture is 'mamba'; these are supported: llama, mistral, qwen2, qwen3, gemma2, "
                 "gemma3, phi3");
  model.name = "llama";
  model.texts["rope.scaling.type"] = "yarn";
  expect_refused(model, ErrorKind::unsupported,
                 "the scaling of positions 'yarn' of the model, expected none, linear, llama3 or longrope");
}

TEST(LanguageConfig, RefusesSizesThatDoNotFit) {
  const auto with = [](const char* key, double value) {
    TinyLanguageModel model = tiny_language_model("llama");
    model.numbers[key] = value;
    return model;
  };
  expect_refused(with("block_count", 0), ErrorKind::invalid_model,
                 "'block_count' of the model is 0, expected 1 to 1024");
  expect_refused(with("block_count", 0x1p62), ErrorKind::invalid_model,
                 "'block_count' of the model is 4611686018427387904, expected 1 to 1024");
  expect_refused(with("attention.head_count_kv", 3), ErrorKind::invalid_model,
                 "the model has 4 query heads, which are no multiple of its 3 key heads");
  expect_refused(with("rope.dimension_count", 7), ErrorKind::invalid_model,
                 "'rope.dimension_count' of the model is 7, which is odd");
  expect_refused(with("rope.dimension_count", 20), ErrorKind::invalid_model,
                 "'rope.dimension_count' of the model is 20, expected 1 to 18");
  expect_refused(with("attention.sliding_window", -1), ErrorKind::invalid_model,
                 "a window of attention of the model is -1, expected 0 to 4294967296");
  TinyLanguageModel model = tiny_language_model("llama");
  model.numbers.erase("embedding_length");
  expect_refused(model, ErrorKind::invalid_model, "the configuration of the model lacks 'embedding_length'");
}

// Numbers that would divide by zero, or make all logits infinite or none.
TEST(LanguageConfig, RefusesNumbersThatDoNotCompute) {
  const auto expect_refusal = [](const char* architecture, const char* key, double value, const char* expected) {
    TinyLanguageModel model = tiny_language_model(architecture);
    model.numbers[key] = value;
    model.texts["rope.scaling.type"] = std::string_view(key) == "rope.scaling.factor" ? "linear" : "none";
    expect_refused(model, ErrorKind::invalid_model,
                   fmt::format("'{}' of the model is {}, expected {}", key, value, expected));
  };
  for (const double value : {-1.0, 2e30, HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    expect_refusal("llama", "attention.layer_norm_rms_epsilon", value, "0 to 1e+30");
    expect_refusal("llama", "rope.freq_base", value, "1e-30 to 1e+30");
    expect_refusal("llama", "rope.scaling.factor", value, "1e-30 to 1e+30");
    expect_refusal("gemma2", "attn_logit_softcapping", value, "0 to 1e+30");
    expect_refusal("gemma2", "final_logit_softcapping", value, "0 to 1e+30");
    expect_refusal("gemma3", "attention.query_pre_attn_scalar", value, "1e-30 to 1e+30");
    expect_refusal("gemma3", "rope.local.freq_base", value, "1e-30 to 1e+30");
  }
  expect_refusal("gemma3", "attention.sliding_window_pattern", 0, "1 to 1024");
  TinyLanguageModel model = tiny_language_model("llama");
  model.add("rope_freqs.weight", 1, 9, base::BlockFormat::f32, 0, 0);
  expect_refused(model, ErrorKind::invalid_model,
                 "a divisor of the frequencies of positions is 0, expected 1e-30 to 1e+30");
}

}  // namespace
}  // namespace tessera::models::config_test
