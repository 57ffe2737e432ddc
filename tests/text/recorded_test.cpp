// What Hugging Face's tokenizers library makes of texts, recorded by tests/peers/compare_tokenizers.py.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/tokenizer.h"

namespace tessera::recorded_test {
namespace {

nlohmann::json lists_of(const TokenEncoding& encoding) {
  return {encoding.ids, encoding.type_ids, encoding.attention_mask, encoding.special_mask};
}

TEST(RecordedTokenizers, AreReproduced) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TESSERA_TOKENIZER_DATA)) {
    ++files;
    std::ifstream file(entry.path());
    const nlohmann::json record = nlohmann::json::parse(file);
    const Tokenizer tokenizer = Tokenizer::from_json(record.at("tokenizer").dump());
    const auto second = record.at("second").get<std::string>();
    for (const nlohmann::json& expected : record.at("cases")) {
      const auto text = expected.at("text").get<std::string>();
      SCOPED_TRACE(entry.path().stem().string() + ": " + text);
      const TokenEncoding single = tokenizer.encode(text);
      EXPECT_EQ(lists_of(single), expected.at("single"));
      EXPECT_EQ(lists_of(tokenizer.encode_pair(text, second)), expected.at("pair"));
      EXPECT_EQ(tokenizer.decode(single.ids), expected.at("decoded").get<std::string>());
    }
  }
  EXPECT_EQ(files, 9);
}

}  // namespace
}  // namespace tessera::recorded_test
