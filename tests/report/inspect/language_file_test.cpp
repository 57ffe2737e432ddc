#include "report/inspect/language_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "support/error_of.h"
#include "support/temporary_folder.h"

namespace tessera::report::language_file_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

template <typename T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

std::string text_of(const std::string& text) {
  return bytes_of<std::uint64_t>(text.size()) + text;
}

std::string string_pair(const std::string& key, const std::string& value) {
  return text_of(key) + bytes_of<std::uint32_t>(8) + text_of(value);
}

void write(const std::filesystem::path& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary) << contents;
}

TEST(LanguageFile, DescribesAGgufFile) {
  std::string file = "GGUF" + bytes_of<std::uint32_t>(3) + bytes_of<std::uint64_t>(1) + bytes_of<std::uint64_t>(6);
  file += string_pair("general.architecture", "llama");
  file += text_of("llama.block_count") + bytes_of<std::uint32_t>(4) + bytes_of<std::uint32_t>(30);
  file += text_of("llama.epsilon") + bytes_of<std::uint32_t>(6) + bytes_of(1e-5F);
  file += text_of("tokenizer.ggml.tokens") + bytes_of<std::uint32_t>(9) + bytes_of<std::uint32_t>(8) +
          bytes_of<std::uint64_t>(2) + text_of("a") + text_of("\x1B[31m");
  file += text_of("tokenizer.ggml.eos_token_id") + bytes_of<std::uint32_t>(4) + bytes_of<std::uint32_t>(1);
  file += string_pair("tokenizer.chat_template", "{{ messages }}\nend");
  file += text_of("w") + bytes_of<std::uint32_t>(2) + bytes_of<std::uint64_t>(64) + bytes_of<std::uint64_t>(3) +
          bytes_of<std::uint32_t>(3) + bytes_of<std::uint64_t>(0);
  file.resize((file.size() + 31) / 32 * 32 + 120);
  const test::TemporaryFolder folder;
  write(folder / "m.gguf", file);
  const LanguageFileInfo info = describe_language_file(folder / "m.gguf");
  EXPECT_EQ(info.architecture, "llama");
  EXPECT_THAT(info.sizes, ElementsAre(Pair("block_count", "30"), Pair("epsilon", "1e-05")));
  EXPECT_EQ(info.parameters, 192);
  const std::string text = language_file_text(info, true, true);
  EXPECT_THAT(text, HasSubstr("q4_1: 1 tensors, 192 elements, 120 B, 5.00 bits an element"));
  EXPECT_THAT(text, HasSubstr("q4_1     [3, 64]"));
  EXPECT_THAT(text, HasSubstr(", 2 tokens, eos \\x1B[31m (1)"));
  EXPECT_THAT(text, HasSubstr("{{ messages }}\nend\n"));
  const nlohmann::json json = language_file_json(info, "m.gguf");
  EXPECT_EQ(json["sizes"]["block_count"], 30);
  EXPECT_EQ(json["formats"][0]["bytes"], 120);
  EXPECT_EQ(json["chat_template"], "{{ messages }}\nend");
}

TEST(LanguageFile, DescribesAFolder) {
  const test::TemporaryFolder folder;
  const std::string header = R"({"w": {"dtype": "BF16", "shape": [2, 4], "data_offsets": [0, 16]}})";
  write(folder / "model.safetensors", bytes_of<std::uint64_t>(header.size()) + header + std::string(16, '\0'));
  write(folder / "config.json", R"({"model_type": "qwen3", "hidden_size": 64, "architectures": ["Qwen3ForCausalLM"]})");
  write(folder / "tokenizer_config.json", R"({"chat_template": "{{ x }}"})");
  const LanguageFileInfo info = describe_language_file(folder.path());
  EXPECT_EQ(info.architecture, "qwen3");
  EXPECT_THAT(info.sizes, ElementsAre(Pair("hidden_size", "64")));
  EXPECT_EQ(info.chat_template, "{{ x }}");
  EXPECT_THAT(language_file_text(info, false, false), HasSubstr("bf16: 1 tensors, 8 elements, 16 B"));
  write(folder / "config.json", "[");
  EXPECT_THAT(test::error_of([&] { describe_language_file(folder.path()); }),
              HasSubstr("config.json' is no JSON object"));
}

}  // namespace
}  // namespace tessera::report::language_file_test
