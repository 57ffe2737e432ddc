// Graphs of language models beside loops in double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "support/expect_error.h"
#include "support/tiny_language_model.h"
#include "tessera/session.h"

namespace tessera::models::build_test {
namespace {

using test::tiny_language_model;
using test::TinyLanguageModel;
using test::TinySizes;

constexpr std::int64_t kTokens = 40, kPages = 4;

Tensor counted(std::int64_t count) {
  Tensor tensor(DType::i64, {count});
  std::iota(tensor.mutable_values<std::int64_t>().begin(), tensor.mutable_values<std::int64_t>().end(), 0);
  return tensor;
}

// All tokens in one step.
std::vector<float> logits_of(const LanguageConfig& config, const TinyLanguageModel& model,
                             const std::vector<std::int64_t>& tokens) {
  LanguageBuildOptions options;
  options.pages = kPages;
  options.cache_type = DType::f32;
  options.exact = true;
  Session session(Model(std::make_shared<const ir::Graph>(build_language_model(config, model, options))));
  const auto count = static_cast<std::int64_t>(tokens.size());
  Tensor ids(DType::i64, {count}), sequence(DType::i64, {count}), pages(DType::i64, {1, kPages});
  std::ranges::copy(tokens, ids.mutable_data<std::int64_t>());
  std::ranges::fill(sequence.mutable_values<std::int64_t>(), 0);
  for (std::int64_t i = 0; i < kPages; ++i) pages.mutable_data<std::int64_t>()[i] = kPages - 1 - i;
  NamedValues inputs;
  inputs.emplace("ids", ids);
  inputs.emplace("sequence", sequence);
  inputs.emplace("pages", pages);
  inputs.emplace("positions", counted(count));
  inputs.emplace("wanted", counted(count));
  const Tensor logits = session.run(inputs).at("logits").tensor();
  return {logits.values<float>().begin(), logits.values<float>().end()};
}

void expect_like_reference(const TinyLanguageModel& model) {
  const LanguageConfig config = read_language_config(model, model);
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < kTokens; ++i) tokens.push_back((i * i * 5 + i) % vocabulary_of(config, model));
  const std::vector<float> found = logits_of(config, model, tokens);
  const std::vector<std::vector<double>> expected = test::LanguageReference(config, model).logits(tokens);
  ASSERT_EQ(found.size(), expected.size() * expected[0].size());
  double error = 0, largest = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double wanted = expected[i / expected[0].size()][i % expected[0].size()];
    error = std::max(error, std::abs(static_cast<double>(found[i]) - wanted));
    largest = std::max(largest, std::abs(wanted));
  }
  EXPECT_GT(largest, 0.1);
  EXPECT_LE(error / largest, 1e-4);
}

class Build : public testing::TestWithParam<std::string> {};

TEST_P(Build, MatchesLoopsInDouble) {
  expect_like_reference(tiny_language_model(GetParam()));
}

TEST_P(Build, WithOtherHeads) {
  TinySizes sizes;
  sizes.kv_heads = 1, sizes.head_size = 32, sizes.hidden = 44, sizes.tied = true;
  TinyLanguageModel model = tiny_language_model(GetParam(), sizes);
  model.neighbours = true;  // of which llama alone takes note
  model.numbers["rope.dimension_count"] = 12;
  model.numbers["rope.freq_base"] = 500;
  expect_like_reference(model);
}

TEST_P(Build, WithWindowsAndLinearScaling) {
  TinySizes sizes;
  sizes.layers = 3;
  TinyLanguageModel model = tiny_language_model(GetParam(), sizes);
  model.numbers["attention.sliding_window"] = 7;
  model.numbers["attention.sliding_window_pattern"] = 2;
  model.numbers["attn_logit_softcapping"] = 2;
  model.numbers["final_logit_softcapping"] = 3;
  model.numbers["attention.query_pre_attn_scalar"] = 5;
  model.numbers["rope.local.freq_base"] = 77;
  model.texts["rope.scaling.type"] = "linear";
  model.numbers["rope.scaling.factor"] = 4;
  expect_like_reference(model);
}

INSTANTIATE_TEST_SUITE_P(Architectures, Build,
                         testing::Values("llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "phi3"));

TEST(BuildLanguageModel, DivisorsOfFrequencies) {
  TinyLanguageModel llama = tiny_language_model("llama");
  llama.texts["rope.scaling.type"] = "llama3";
  llama.add("rope_freqs.weight", 1, 9, base::BlockFormat::f32, 3, 4);
  expect_like_reference(llama);
  TinyLanguageModel phi = tiny_language_model("phi3");
  phi.texts["rope.scaling.type"] = "longrope";
  phi.numbers["rope.scaling.original_context_length"] = 32;
  phi.add("rope_factors_long.weight", 1, 9, base::BlockFormat::f32, 3, 4);
  phi.add("rope_factors_short.weight", 1, 9, base::BlockFormat::f32, 0.5f, 1);
  expect_like_reference(phi);
}

TEST(BuildLanguageModel, QuantisedWeights) {
  TinySizes sizes;
  sizes.hidden = 64, sizes.wide = 96, sizes.head_size = 16, sizes.format = base::BlockFormat::q8_0;
  expect_like_reference(tiny_language_model("llama", sizes));
  expect_like_reference(tiny_language_model("phi3", sizes));
}

// The file says that each of two heads has a million elements: tables of positions for them would take 32 GiB.
TEST(BuildLanguageModel, HeadsThatTheWeightsDoNotHave) {
  TinyLanguageModel model = tiny_language_model("llama");
  model.numbers["attention.key_length"] = 1 << 20;
  model.numbers["context_length"] = 8192;
  model.numbers.erase("rope.dimension_count");
  const LanguageConfig config = read_language_config(model, model);
  test::expect_error(ErrorKind::invalid_model,
                     "the weight 'blk.0.attn_k.weight' has 36 rows of 52, expected 2097152 of 52",
                     [&] { build_language_model(config, model, {kPages, DType::f16, false}); });
}

TEST(BuildLanguageModel, MissingAndWrongWeights) {
  const LanguageBuildOptions options{kPages, DType::f16, false};
  TinyLanguageModel model = tiny_language_model("llama");
  const LanguageConfig config = read_language_config(model, model);
  model.weights.erase("blk.1.attn_k.weight");
  test::expect_error(ErrorKind::invalid_model, "the model has no weight 'blk.1.attn_k.weight'",
                     [&] { build_language_model(config, model, options); });
  model.add("blk.1.attn_k.weight", 35, 52, base::BlockFormat::f32, 1);
  test::expect_error(ErrorKind::invalid_model, "the weight 'blk.1.attn_k.weight' has 35 rows of 52, expected 36 of 52",
                     [&] { build_language_model(config, model, options); });
  test::expect_error(ErrorKind::invalid_argument, "a cache of 0 pages, expected at least 1",
                     [&] { build_language_model(config, model, {0, DType::f16, false}); });
  test::expect_error(ErrorKind::invalid_argument, "a cache of i32, expected f32, f16 or i8",
                     [&] { build_language_model(config, model, {1, DType::i32, false}); });
}

}  // namespace
}  // namespace tessera::models::build_test
