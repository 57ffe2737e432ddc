// Damaged files: every byte of several small models flipped, and every length cut, then read, planned and run.
#include <gtest/gtest.h>

#include "io/onnx/model_builder.h"
#include "ir/text.h"
#include "runtime/session/random_inputs.h"
#include "support/guarded.h"
#include "tessera/session.h"

namespace tessera::test::hostile_bytes_test {
namespace {

using tessera_onnx::GraphProto;

// Typed data of several kinds, a function with an attribute, and old forms that are rewritten.
ModelBuilder function_model() {
  ModelBuilder model(11, {1, 2, 4, 4});
  auto& weights = *model.graph().add_initializer();
  weights.set_name("w");
  weights.set_data_type(1);
  for (int dim : {2, 2, 3, 3}) weights.add_dims(dim);
  for (int i = 0; i < 36; ++i) weights.add_float_data(0.1f);
  model.initializer("axes", DType::i64, {1}, std::string("\2\0\0\0\0\0\0\0", 8));
  auto& function = add_function(model, "Scale", {"a"}, {"b"});
  function.add_attribute("alpha");
  add_attribute(add_node(*function.mutable_node(), "LeakyRelu", {"a"}, {"b"}), "alpha").set_ref_attr_name("alpha");
  set(model.node("Conv", {"x", "w"}, {"c"}), "pads", {1, 1, 1, 1});
  set(model.node("Scale", {"c"}, {"s"}), "alpha", 0.5f);
  model.graph().mutable_node(1)->set_domain("local");
  auto& pool = model.node("MaxPool", {"s"}, {"p"});
  set(pool, "kernel_shape", {2, 2});
  set(pool, "strides", {2, 2});
  auto& reduce = model.node("ReduceSum", {"p"}, {"y"});
  set(reduce, "axes", {2, 3});
  set(reduce, "keepdims", std::int64_t{0});
  return model;
}

// Branches, a loop with a scan output, captures and a sparse initializer.
ModelBuilder control_model() {
  ModelBuilder model(21, {3});
  model.initializer("trips", DType::i64, {}, std::string("\3\0\0\0\0\0\0\0", 8));
  model.initializer("yes", DType::boolean, {}, "\1");
  auto& sparse = *model.graph().add_sparse_initializer();
  sparse.add_dims(3);
  sparse.mutable_values()->set_name("s");
  sparse.mutable_values()->set_data_type(1);
  sparse.mutable_values()->add_dims(1);
  sparse.mutable_values()->add_float_data(2);
  sparse.mutable_indices()->set_data_type(7);
  sparse.mutable_indices()->add_dims(1);
  sparse.mutable_indices()->add_int64_data(1);
  auto& loop = add_attribute(model.node("Loop", {"trips", "yes", "x"}, {"l", "scan"}), "body");
  loop.set_type(5);
  GraphProto& body = *loop.mutable_g();
  for (const char* name : {"i", "c", "v"}) body.add_input()->set_name(name);
  add_node(*body.mutable_node(), "Add", {"v", "s"}, {"w"});
  add_node(*body.mutable_node(), "Identity", {"c"}, {"d"});
  for (const char* name : {"d", "w", "w"}) body.add_output()->set_name(name);
  auto& node = model.node("If", {"yes"}, {"b"});
  for (const char* name : {"then_branch", "else_branch"}) {
    auto& attribute = add_attribute(node, name);
    attribute.set_type(5);
    add_node(*attribute.mutable_g()->mutable_node(), name[0] == 't' ? "Relu" : "Neg", {"l"}, {std::string("o") + name});
    attribute.mutable_g()->add_output()->set_name(std::string("o") + name);
  }
  model.node("Add", {"b", "scan"}, {"y"});
  return model;
}

// Strings, sequences, quantised data of four bits, and indices.
ModelBuilder data_model() {
  ModelBuilder model(21, {2, 4});
  model.initializer("q", DType::i4, {4}, "\x21\x43");
  model.initializer("scale", DType::f32, {}, std::string("\0\0\0\x3f", 4));
  model.initializer("rows", DType::i32, {2}, std::string("\1\0\0\0\0\0\0\0", 8));
  auto& words = *model.graph().add_initializer();
  words.set_name("words");
  words.set_data_type(8);
  words.add_dims(2);
  words.add_string_data("a b");
  words.add_string_data("c");
  model.node("DequantizeLinear", {"q", "scale"}, {"d"});
  model.node("Mul", {"x", "d"}, {"m"});
  set(model.node("Gather", {"m", "rows"}, {"g"}), "axis", std::int64_t{0});
  model.node("SplitToSequence", {"g"}, {"seq"});
  set(model.node("ConcatFromSequence", {"seq"}, {"cat"}), "axis", std::int64_t{0});
  model.node("StringSplit", {"words"}, {"split", "counts"});
  set(model.node("Cast", {"counts"}, {"f"}), "to", std::int64_t{1});
  model.node("Reshape", {"f", "shape"}, {"column"});
  model.initializer("shape", DType::i64, {2}, std::string("\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 16));
  model.node("Add", {"cat", "column"}, {"y"});
  return model;
}

void read_and_run(const std::string& bytes) {
  const Model model(std::make_shared<const ir::Graph>(io::read_model_bytes(bytes_of(bytes))));
  SessionOptions options;
  options.threads = 1;
  options.memory_limit_bytes = std::int64_t{64} << 20;
  Session session(model, options);
  RunOptions how;
  how.time_limit_ns = 200'000'000;
  session.run(runtime::random_inputs(model, 1, options.memory_limit_bytes), how);
}

// Runs every variant; throws what is no Error, with the variant's name.
template <typename Variant>
void sweep(std::size_t count, Variant variant) {
  for (std::size_t i = 0; i < count; ++i) {
    try {
      read_and_run(variant(i));
    } catch (const Error&) {
    }
  }
}

struct Subject {
  const char* name;
  ModelBuilder (*make)();
};

class HostileBytes : public testing::TestWithParam<Subject> {};

TEST_P(HostileBytes, AreReadOrRefusedAtEveryLength) {
  const std::string whole = GetParam().make().text();
  ASSERT_FALSE(run_guarded([&] { read_and_run(whole); }).kind) << "the model itself must run";
  expect_harmless(GetParam().name,
                  [&] { sweep(whole.size(), [&](std::size_t length) { return whole.substr(0, length); }); });
}

TEST_P(HostileBytes, AreReadOrRefusedWithEveryByteChanged) {
  const std::string whole = GetParam().make().text();
  const auto changed = [&whole](int mask) {
    return [&whole, mask](std::size_t i) {
      std::string bytes = whole;
      bytes[i] = static_cast<char>(bytes[i] ^ mask);
      return bytes;
    };
  };
  // One bit at a time, the sign of numbers and all of a byte among them.
  for (const int mask : {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xFF})
    expect_harmless(GetParam().name, [&] { sweep(whole.size(), changed(mask)); });
}

INSTANTIATE_TEST_SUITE_P(Models, HostileBytes,
                         testing::Values(Subject{"functions", function_model}, Subject{"control", control_model},
                                         Subject{"data", data_model}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tessera::test::hostile_bytes_test
