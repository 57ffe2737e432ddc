#include "text/text_input.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "support/expect_error.h"
#include "tessera/model.h"

namespace tessera::text::text_input_test {
namespace {

using Texts = std::vector<std::string>;

Model model_of(const std::string& inputs) {
  return Model(std::make_shared<const ir::Graph>(
      ir::parse("graph {\n" + inputs + "  %y = Identity (%input_ids)\n  output %y\n}\n")));
}

Tokenizer words() {
  return Tokenizer::from_json(R"({"pre_tokenizer": {"type": "WhitespaceSplit"},
    "added_tokens": [{"id": 9, "content": "[PAD]", "special": true}],
    "model": {"type": "WordLevel", "unk_token": "u", "vocab": {"u": 0, "a": 1, "b": 2}}})");
}

template <typename T>
std::vector<T> values(const NamedValues& inputs, const std::string& name) {
  const auto found = inputs.at(name).tensor().values<T>();
  return {found.begin(), found.end()};
}

TEST(TextInput, FillsWhatTheModelReads) {
  const Model model = model_of(
      "  input %input_ids : i64[batch, tokens]\n  input %attention_mask : i32[batch, tokens]\n"
      "  input %position : f32[1]\n");
  const NamedValues inputs = text_inputs(model.inputs(), words(), Texts{"a b", "b"});
  EXPECT_EQ(inputs.size(), 2U);
  EXPECT_EQ(values<std::int64_t>(inputs, "input_ids"), (std::vector<std::int64_t>{1, 2, 2, 9}));
  EXPECT_EQ(values<std::int32_t>(inputs, "attention_mask"), (std::vector<std::int32_t>{1, 1, 1, 0}));
}

TEST(TextInput, KeepsToAFixedLength) {
  const Model model = model_of("  input %input_ids : i64[1, 3]\n");
  EXPECT_EQ(values<std::int64_t>(text_inputs(model.inputs(), words(), Texts{"a"}), "input_ids"),
            (std::vector<std::int64_t>{1, 9, 9}));
  EXPECT_EQ(values<std::int64_t>(text_inputs(model.inputs(), words(), Texts{"a b a b"}), "input_ids"),
            (std::vector<std::int64_t>{1, 2, 1}));
}

TEST(TextInput, RefusesWhatDoesNotFit) {
  const auto refuses = [](const std::string& inputs, const Texts& texts, const char* message) {
    test::expect_error_containing(ErrorKind::invalid_argument, message,
                                  [&] { text_inputs(model_of(inputs).inputs(), words(), texts); });
  };
  refuses("  input %input_ids : i64[1, tokens]\n", {"a", "b"}, "takes 1 texts at once, got 2");
  refuses("  input %input_ids : i64[batch]\n", {"a"}, "expected two dimensions");
  refuses("  input %input_ids : u8[batch, tokens]\n", {"a"}, "is u8, expected i64, i32 or f32");
  refuses("  input %input_ids : i64[batch, tokens]\n", {}, "there is no text");
  refuses("  input %input_ids : i64[batch, tokens]\n", {" "}, "the text has no tokens");
}

}  // namespace
}  // namespace tessera::text::text_input_test
