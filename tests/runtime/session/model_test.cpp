// What a model file says about itself, through every form in which Tessera writes it.
#include "tessera/model.h"

#include <gtest/gtest.h>

#include "io/onnx/reader.h"
#include "io/onnx/writer.h"
#include "ir/text.h"
#include "support/temporary_folder.h"
#include "tessera/optimise.h"

namespace tessera::test::model_test {
namespace {

Model described_model() {
  return Model(std::make_shared<const ir::Graph>(ir::parse(R"(graph "reader" {
    metadata "producer_name" = "somebody"
    metadata "producer_version" = "1.2"
    metadata "domain" = "org.example"
    metadata "model_version" = "7"
    metadata "doc_string" = "Reads two letters."
    metadata "ir_version" = "6"
    metadata "opset:ai.onnx" = "11"
    metadata "opset:org.example" = "3"
    metadata "property:character" = "a\nb"
    metadata "property:producer_name" = "a property may have any name"
    input %x : f32[n, 3]
    %y = Relu "act" (%x) : f32[n, 3]
    %z = Neg "negative" (%y) : f32[n, 3]
    output %z
  })")));
}

void expect_description(const ModelMetadata& metadata) {
  EXPECT_EQ(metadata.producer_name, "somebody");
  EXPECT_EQ(metadata.producer_version, "1.2");
  EXPECT_EQ(metadata.domain, "org.example");
  EXPECT_EQ(metadata.doc_string, "Reads two letters.");
  EXPECT_EQ(metadata.graph_name, "reader");
  EXPECT_EQ(metadata.model_version, 7);
  EXPECT_EQ(metadata.properties, (std::map<std::string, std::string>{
                                     {"character", "a\nb"}, {"producer_name", "a property may have any name"}}));
}

TEST(ModelMetadata, IsWhatTheFileSays) {
  const Model model = described_model();
  expect_description(model.metadata());
  EXPECT_EQ(model.metadata().ir_version, 6);
  EXPECT_EQ(model.metadata().opsets, (std::map<std::string, std::int64_t>{{"ai.onnx", 11}, {"org.example", 3}}));
  expect_description(model.with_dims({{"n", 2}}).metadata());
}

TEST(ModelMetadata, StaysInPackages) {
  const TemporaryFolder folder;
  optimise(described_model(), folder / "model.tsr");
  const ModelMetadata metadata = Model::load(folder / "model.tsr").metadata();
  expect_description(metadata);
  EXPECT_EQ(metadata.ir_version, 6);  // that of the file it was made from, not of the form inside
  EXPECT_EQ(metadata.opsets, (std::map<std::string, std::int64_t>{{"ai.onnx", 11}, {"org.example", 3}}));
}

TEST(ModelMetadata, StaysInWrittenModels) {
  const TemporaryFolder folder;
  optimise(described_model(), folder / "optimised.onnx");
  described_model().save(folder / "saved.onnx");
  for (const char* file : {"optimised.onnx", "saved.onnx"}) {
    const ModelMetadata metadata = Model::load(folder / file).metadata();
    expect_description(metadata);
    EXPECT_EQ(metadata.opsets.count("ai.onnx"), 1u) << file;
  }
}

TEST(ModelMetadata, IsEmptyOfAModelBuiltInMemory) {
  const ModelMetadata metadata =
      Model(std::make_shared<const ir::Graph>(ir::parse("graph { input %x : f32[1] output %x }"))).metadata();
  EXPECT_EQ(metadata.ir_version, 0);
  EXPECT_TRUE(metadata.opsets.empty());
  EXPECT_TRUE(metadata.properties.empty());
}

}  // namespace
}  // namespace tessera::test::model_test
