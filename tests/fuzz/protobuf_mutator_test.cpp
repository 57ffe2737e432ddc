#include "protobuf_mutator.h"

#include <gtest/gtest.h>

#include <set>

#include "io/onnx/reader.h"
#include "io/onnx/writer.h"
#include "ir/text.h"
#include "tessera/error.h"

namespace tessera::fuzz {
namespace {

std::string model(std::string_view text) {
  const std::vector<std::byte> bytes = io::write_model_bytes(ir::parse(text));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

const std::string kModel =
    model("graph { input %x : f32[2, 3] constant %w = f32[3] {1, 2, 3} %y = Add (%x, %w) %z = Relu (%y) output %z }");

std::optional<ir::Graph> read(const std::string& bytes) {
  try {
    return io::read_model_bytes(std::as_bytes(std::span(bytes)));
  } catch (const Error&) {
    return std::nullopt;
  }
}

TEST(ProtobufMutator, IsAFunctionOfTheSeed) {
  const ProtobufMutator mutator(TESSERA_ONNX_SCHEMA);
  std::set<std::string> results;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const std::string mutated = mutator.mutate("ModelProto", kModel, seed);
    EXPECT_EQ(mutated, mutator.mutate("ModelProto", kModel, seed)) << "seed " << seed;
    results.insert(mutated);
  }
  EXPECT_GT(results.size(), 80u);
}

TEST(ProtobufMutator, GivesMessagesAndManyLegalModels) {
  const ProtobufMutator mutator(TESSERA_ONNX_SCHEMA);
  std::string bytes = kModel;
  int legal = 0;
  std::set<std::string> ops;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const std::string mutated = mutator.mutate("ModelProto", bytes, seed);
    ASSERT_FALSE(mutated.empty()) << "what came out of seed " << seed - 1 << " is no message";
    const std::optional<ir::Graph> graph = read(mutated);
    legal += graph.has_value();
    if (graph) {
      for (const ir::NodeId id : graph->order()) ops.insert(graph->node(id).op);
    }
    bytes = graph && mutated.size() < 2000 ? mutated : kModel;
  }
  EXPECT_GT(legal, 600);
  EXPECT_GT(ops.size(), 40u);
}

TEST(ProtobufMutator, PutsPartsOfOneModelIntoAnother) {
  const ProtobufMutator mutator(TESSERA_ONNX_SCHEMA);
  const std::string other = model("graph { input %x : f32[2, 3] %z = Tanh (%x) output %z }");
  int taken = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::string crossed = mutator.cross_over("ModelProto", kModel, other, seed);
    ASSERT_FALSE(crossed.empty());
    taken += crossed.find("Tanh") != std::string::npos && crossed.find("Relu") != std::string::npos;
  }
  EXPECT_GT(taken, 5);
}

TEST(ProtobufMutator, RefusesWhatIsNoMessage) {
  const ProtobufMutator mutator(TESSERA_ONNX_SCHEMA);
  EXPECT_EQ(mutator.mutate("ModelProto", "\x0a\xff", 1), "");
  EXPECT_EQ(mutator.cross_over("ModelProto", kModel, "\x0a\xff", 1), "");
  EXPECT_THROW(ProtobufMutator("/no/such.proto"), Error);
}

}  // namespace
}  // namespace tessera::fuzz
