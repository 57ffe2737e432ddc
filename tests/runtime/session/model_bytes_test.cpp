// Models from memory: who keeps the bytes, and where external data may lie.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "ir/text.h"
#include "ops/core/infer.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "tessera/optimise.h"
#include "tessera/session.h"

namespace tessera::test::model_bytes_test {
namespace {

// y = x w with a weight that is large enough to be used where it lies in the file.
Model product_model() {
  auto graph = std::make_shared<ir::Graph>();
  Tensor weight(DType::f32, {64, 64});
  for (std::int64_t i = 0; i < weight.elements(); ++i) weight.mutable_data<float>()[i] = static_cast<float>(i % 7) - 3;
  const ir::ValueId x =
      graph->add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), 64}));
  graph->add_output(graph->add_op("MatMul", {x, graph->add_constant(weight, "w")}, {}, "y"));
  ops::infer_graph(*graph);
  return Model(graph);
}

Tensor run(const Model& model) {
  Tensor x(DType::f32, {2, 64});
  for (std::int64_t i = 0; i < x.elements(); ++i) x.mutable_data<float>()[i] = static_cast<float>(i % 5);
  return Session(model).run({{"x", x}}).at("y").tensor();
}

std::vector<char> bytes_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ModelFromBytes, WithoutOwnerNeedsTheBytesOnlyMeanwhile) {
  const TemporaryFolder folder;
  const Model model = product_model();
  model.save(folder / "m.onnx");
  optimise(model, folder / "m.tsr");
  for (const char* name : {"m.onnx", "m.tsr"}) {
    std::vector<char> bytes = bytes_of_file(folder / name);
    const Model loaded = Model::from_bytes(std::as_bytes(std::span(bytes)));
    std::fill(bytes.begin(), bytes.end(), 'x');
    bytes = {};
    EXPECT_TRUE(identical(run(loaded), run(model))) << name;
  }
}

TEST(ModelFromBytes, KeepsTheOwnerAsLongAsASessionNeedsIt) {
  const TemporaryFolder folder;
  product_model().save(folder / "m.onnx");
  auto bytes = std::make_shared<std::vector<char>>(bytes_of_file(folder / "m.onnx"));
  const std::weak_ptr<std::vector<char>> watch = bytes;
  {
    const std::span<const std::byte> view = std::as_bytes(std::span(*bytes));
    Session session(Model::from_bytes(view, std::move(bytes)));
    EXPECT_FALSE(watch.expired());
    EXPECT_EQ(session.run({{"x", Tensor(DType::f32, {0, 64})}}).at("y").tensor().shape(), (Shape{0, 64}));
  }
  EXPECT_TRUE(watch.expired());
}

TEST(ModelFromBytes, APackageMayBeginAnywhere) {
  const TemporaryFolder folder;
  const Model model = product_model();
  optimise(model, folder / "m.tsr");
  const std::vector<char> file = bytes_of_file(folder / "m.tsr");
  for (const std::size_t offset : {0, 1, 8}) {
    auto memory = std::make_shared<Tensor>(DType::u8, Shape{static_cast<std::int64_t>(file.size() + offset)});
    char* begin = static_cast<char*>(memory->mutable_raw()) + offset;
    std::copy(file.begin(), file.end(), begin);
    EXPECT_TRUE(identical(run(Model::from_bytes(std::as_bytes(std::span(begin, file.size())), memory)), run(model)))
        << offset;
  }
}

TEST(ModelFromBytes, RefusesNonsense) {
  const std::string text = "no model at all";
  expect_error_containing(ErrorKind::invalid_model, "not an ONNX model",
                          [&] { Model::from_bytes(std::as_bytes(std::span(text))); });
  expect_error_containing(ErrorKind::invalid_model, "the file is empty", [&] { Model::from_bytes({}); });
}

}  // namespace
}  // namespace tessera::test::model_bytes_test
