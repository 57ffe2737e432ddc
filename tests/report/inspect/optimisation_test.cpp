#include "report/inspect/optimisation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tessera::test::optimisation_test {
namespace {

using testing::HasSubstr;
using testing::Not;

report::Optimisation written(std::int64_t model_bytes, std::int64_t file_bytes) {
  report::Optimisation result{.model = "net.onnx",
                              .output = "out.onnx",
                              .device = "a CPU",
                              .report = {},
                              .model_bytes = model_bytes,
                              .verified_against = {},
                              .differences = {}};
  result.report.file_bytes = file_bytes;
  return result;
}

TEST(OptimisationText, SaysWhatRaisedTheOpset) {
  report::Optimisation result = written(1000, 1000);
  result.report.opset_before = 11;
  result.report.opset = 17;
  result.report.opset_raised_by = {"LayerNormalization"};
  EXPECT_THAT(report::optimisation_text(result),
              HasSubstr("ONNX opset raised from 11 to 17: LayerNormalization needs it\n"));
  result.report.opset_raised_by.emplace_back("STFT");
  EXPECT_THAT(report::optimisation_text(result), HasSubstr("raised from 11 to 17: LayerNormalization, STFT need it\n"));
  result.report.opset_raised_by.clear();
  EXPECT_THAT(report::optimisation_text(result), HasSubstr("ONNX opset 17 instead of 11\n")) << "it was asked for";
  const auto opset = nlohmann::json::parse(report::optimisation_json(result)).at("opset");
  EXPECT_EQ(opset.at("before"), 11);
  EXPECT_EQ(opset.at("after"), 17);
  result.report.opset = 11;
  EXPECT_THAT(report::optimisation_text(result), HasSubstr("wrote out.onnx (1000 B, ONNX opset 11)\n"));
  EXPECT_THAT(report::optimisation_text(result), Not(HasSubstr("instead of 11")));
}

TEST(OptimisationText, SaysThatTheFileGrew) {
  EXPECT_THAT(report::optimisation_text(written(10 << 20, 24 << 20)),
              HasSubstr("the file is 2.4 times as large as the model (24.0 MiB instead of 10.0 MiB)\n"));
  EXPECT_THAT(report::optimisation_text(written(10 << 20, 11 << 20)), Not(HasSubstr("times as large")));
  EXPECT_THAT(report::optimisation_text(written(100, 1000)), Not(HasSubstr("times as large")))
      << "too little to matter";
}

TEST(OptimisationText, SaysWhatItWasComparedWith) {
  report::Optimisation result = written(1000, 1000);
  result.verified_against = "net.onnx in float32 without passes, on device cpu";
  result.differences = {{.name = "y",
                         .close = true,
                         .mismatch = {},
                         .largest = 0.5,
                         .relative = 0.125,
                         .has_ratios = true,
                         .cosine = 0.99,
                         .snr_db = 20,
                         .first = {}}};
  const std::string text = report::optimisation_text(result);
  EXPECT_THAT(text, HasSubstr("verified against net.onnx in float32 without passes, on device cpu:\n"));
  EXPECT_THAT(text, HasSubstr("verified y: largest difference 0.5, 0.125 of the largest value; signal-to-noise 20.0 "
                              "dB, cosine 0.9900000\n"));
}

}  // namespace
}  // namespace tessera::test::optimisation_test
