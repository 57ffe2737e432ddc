// Nets survive every form they can be written in: ONNX and the text form give back an equal graph.
#include <gtest/gtest.h>

#include "io/onnx/reader.h"
#include "io/onnx/writer.h"
#include "ir/text.h"
#include "models/models.h"

namespace tessera::round_trip_test {
namespace {

class RoundTrip : public testing::TestWithParam<const char*> {};

ir::Graph through_onnx(const ir::Graph& graph) {
  return io::read_model_bytes(io::write_model_bytes(graph));
}

TEST_P(RoundTrip, OnnxGivesAnEqualGraph) {
  const ir::Graph read = through_onnx(models::build_model(GetParam()));
  EXPECT_TRUE(ir::structurally_equal(read, through_onnx(read)));
}

TEST_P(RoundTrip, TextGivesAnEqualGraph) {
  const ir::Graph read = through_onnx(models::build_model(GetParam()));
  EXPECT_TRUE(ir::structurally_equal(read, ir::parse(ir::print(read))));
}

// Small nets that together have images, symbols, recurrence, data-dependent shapes and embeddings.
INSTANTIATE_TEST_SUITE_P(Nets, RoundTrip, testing::Values("lenet5", "ssd", "mobilenet_v3_small"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tessera::round_trip_test
