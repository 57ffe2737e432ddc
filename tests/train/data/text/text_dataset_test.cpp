#include "train/data/text/text_dataset.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "train/data/sample_support.h"

namespace tessera::train::text_dataset_test {
namespace {

using test::expect_error_containing;
using Tokens = std::vector<std::string_view>;

TEST(Tokenise, CutsWordsAndCharacters) {
  EXPECT_EQ(tokenise("if x_1 >= 20:\n  nö", TokenLevel::word), (Tokens{"if", "x_1", ">", "=", "20", ":", "nö"}));
  EXPECT_EQ(tokenise("aö ", TokenLevel::character), (Tokens{"a", "ö", " "}));
  EXPECT_EQ(tokenise("\xC3", TokenLevel::character).size(), 1u);  // half a code point
  EXPECT_TRUE(tokenise("", TokenLevel::word).empty());
}

TEST(TrainedVocabulary, HoldsTheMostFrequentTokens) {
  const TrainedVocabulary vocabulary = TrainedVocabulary::learn("b a b c b a d", TokenLevel::word, 5);
  EXPECT_EQ(vocabulary.tokens(), (std::vector<std::string>{"[UNK]", "[MASK]", "[PAD]", "b", "a"}));
  EXPECT_EQ(vocabulary.encode("a b z"), (std::vector<std::int64_t>{4, 3, TrainedVocabulary::kUnknown}));
  expect_error_containing(ErrorKind::invalid_argument, "more than 3 tokens, not 3",
                          [] { TrainedVocabulary::learn("a", TokenLevel::word, 3); });
}

TEST(TextDataset, CutsWindows) {
  const auto data = make_text_dataset({1, 2, 3, 4, 5, 6, 7}, 3, TextTask::next_token, "t");
  ASSERT_EQ(data->size(), 2);
  const std::vector<Tensor> sample = test::read_sample(*data, 1);
  EXPECT_EQ(sample[0].data<std::int64_t>()[0], 4);
  EXPECT_EQ(sample[1].data<std::int64_t>()[2], 7);
  EXPECT_EQ(make_text_dataset({1, 2, 3, 4, 5, 6}, 3, TextTask::next_token, "t")->size(), 1);
  EXPECT_EQ(make_text_dataset({1, 2, 3, 4, 5, 6}, 3, TextTask::tokens, "t")->size(), 2);
  expect_error_containing(ErrorKind::invalid_argument, "'t' has 2 tokens, fewer than a window of 3",
                          [] { make_text_dataset({1, 2}, 3, TextTask::tokens, "t"); });
}

}  // namespace
}  // namespace tessera::train::text_dataset_test
