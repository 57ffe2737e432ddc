#include "generate/language_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "support/error_of.h"
#include "support/gguf_bytes.h"
#include "support/temporary_folder.h"

namespace tessera::generate::language_text_test {
namespace {

using io::GgufType;
using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;

io::GgufFile file_of(const test::GgufBytes& bytes) {
  const auto owner = std::make_shared<std::string>(bytes.data);
  return io::GgufFile::from_bytes(std::as_bytes(std::span(*owner)), owner);
}

TEST(LanguageText, ReadsTheTokenizerOfAGgufFile) {
  test::GgufBytes bytes;
  bytes.header(0, 8).key("tokenizer.ggml.model", GgufType::string).text("llama");
  bytes.key("tokenizer.ggml.tokens", GgufType::array).list(GgufType::string, 4);
  bytes.text("<s>").text("</s>").text("a").text("<|im_end|>");
  bytes.key("tokenizer.ggml.scores", GgufType::array).list(GgufType::f32, 4);
  bytes.number(0.0F).number(0.0F).number(-1.5F).number(0.0F);
  bytes.key("tokenizer.ggml.token_type", GgufType::array).list(GgufType::i32, 4);
  bytes.number<std::int32_t>(3).number<std::int32_t>(3).number<std::int32_t>(1).number<std::int32_t>(3);
  bytes.key("tokenizer.ggml.bos_token_id", GgufType::u32).number<std::uint32_t>(0);
  bytes.key("tokenizer.ggml.eos_token_id", GgufType::u32).number<std::uint32_t>(1);
  bytes.key("tokenizer.ggml.add_bos_token", GgufType::boolean).number<std::uint8_t>(0);
  bytes.key("tokenizer.chat_template", GgufType::string).text("{{ messages }}");
  const io::GgufFile file = file_of(bytes);
  const TokenizerParts parts = tokenizer_parts(file);
  EXPECT_EQ(parts.model, "llama");
  EXPECT_THAT(parts.scores, ElementsAre(0, 0, -1.5F, 0));
  EXPECT_EQ(parts.add_bos, false);
  EXPECT_EQ(parts.add_eos, std::nullopt);
  EXPECT_EQ(parts.unknown, -1);
  const LanguageText text = text_of_gguf(file);
  EXPECT_EQ(text.bos_text, "<s>");
  EXPECT_EQ(text.eos_text, "</s>");
  EXPECT_THAT(text.end_tokens, ElementsAre(1, 3));
  EXPECT_EQ(text.chat_template, "{{ messages }}");
}

TEST(LanguageText, AFileWithoutATokenizerIsRefused) {
  EXPECT_THAT(error_of([] { text_of_gguf(file_of(test::GgufBytes().header(0, 0))); }),
              HasSubstr("no metadata value 'tokenizer.ggml.model'"));
  test::GgufBytes bytes;
  bytes.header(0, 1).key("tokenizer.ggml.model", GgufType::u32).number<std::uint32_t>(1);
  EXPECT_THAT(error_of([&] { text_of_gguf(file_of(bytes)); }), HasSubstr("has type u32, expected string"));
}

void write(const std::filesystem::path& path, const std::string& contents) {
  std::ofstream(path) << contents;
}

TEST(LanguageText, ReadsTheFilesOfAFolder) {
  const test::TemporaryFolder folder;
  write(folder / "tokenizer.json",
        R"({"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "<end>": 2, "<more>": 3}, "unk_token": "a"}})");
  EXPECT_EQ(text_of_folder(folder.path()).chat_template, "");
  write(folder / "tokenizer_config.json",
        R"({"bos_token": {"content": "b"}, "eos_token": "<end>",
            "chat_template": [{"name": "tools", "template": "x"}, {"name": "default", "template": "{{ y }}"}]})");
  write(folder / "generation_config.json", R"({"eos_token_id": [3, 2]})");
  LanguageText text = text_of_folder(folder.path());
  EXPECT_EQ(text.bos_text, "b");
  EXPECT_EQ(text.eos_text, "<end>");
  EXPECT_EQ(text.chat_template, "{{ y }}");
  EXPECT_THAT(text.end_tokens, ElementsAre(2, 3));
  write(folder / "chat_template.jinja", "{{ z }}");
  EXPECT_EQ(text_of_folder(folder.path()).chat_template, "{{ z }}");
  write(folder / "generation_config.json", R"({"eos_token_id": ["x"]})");
  EXPECT_THAT(error_of([&] { text_of_folder(folder.path()); }), HasSubstr("expected a number or a list of numbers"));
  write(folder / "generation_config.json", "[]");
  EXPECT_THAT(error_of([&] { text_of_folder(folder.path()); }), HasSubstr("generation_config.json' is no JSON object"));
}

}  // namespace
}  // namespace tessera::generate::language_text_test
