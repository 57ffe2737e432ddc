#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"

namespace tessera::test::tf_idf_vectorizer_test {
namespace {

// The pool of ONNX's own cases: 2, 3, 5, 4 alone; then the pairs 5 6, 7 8, 6 7.
ir::Attributes attributes(const char* mode, std::int64_t skip, std::int64_t shortest) {
  return {{"mode", std::string(mode)},
          {"min_gram_length", shortest},
          {"max_gram_length", std::int64_t{2}},
          {"max_skip_count", skip},
          {"ngram_counts", std::vector<std::int64_t>{0, 4}},
          {"ngram_indexes", std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6}},
          {"pool_int64s", std::vector<std::int64_t>{2, 3, 5, 4, 5, 6, 7, 8, 6, 7}}};
}
const Tensor kRow = Tensor::from<std::int32_t>({12}, {1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8});

TEST(TfIdfVectorizer, CountsPairsAndSingles) {
  EXPECT_TRUE(identical(run_op_tensor({"TfIdfVectorizer", {kRow}, attributes("TF", 0, 2)}),
                        Tensor::from<float>({7}, {0, 0, 0, 0, 1, 1, 1})));
  EXPECT_TRUE(identical(run_op_tensor({"TfIdfVectorizer", {kRow}, attributes("TF", 0, 1)}),
                        Tensor::from<float>({7}, {0, 3, 1, 0, 1, 1, 1})));
  EXPECT_TRUE(identical(run_op_tensor({"TfIdfVectorizer", {kRow}, attributes("TF", 5, 2)}),
                        Tensor::from<float>({7}, {0, 0, 0, 0, 1, 3, 1})));
  EXPECT_TRUE(identical(run_op_tensor({"TfIdfVectorizer", {kRow}, attributes("IDF", INT64_MAX, 1)}),
                        Tensor::from<float>({7}, {0, 1, 1, 0, 1, 1, 1})));
}

TEST(TfIdfVectorizer, RefusesBrokenPools) {
  ir::Attributes broken = attributes("TF", 0, 1);
  broken["ngram_counts"] = std::vector<std::int64_t>{0, 3};
  expect_error(ErrorKind::invalid_model, "7 items are no whole 2-grams",
               [&] { run_op({"TfIdfVectorizer", {kRow}, broken}); });
  broken = attributes("TF", 0, 1);
  broken["ngram_indexes"] = std::vector<std::int64_t>{0, -1, 2, 3, 4, 5, 6};
  expect_error(ErrorKind::invalid_model, "ngram_indexes reach from -1 to 6",
               [&] { run_op({"TfIdfVectorizer", {kRow}, broken}); });
}

}  // namespace
}  // namespace tessera::test::tf_idf_vectorizer_test
