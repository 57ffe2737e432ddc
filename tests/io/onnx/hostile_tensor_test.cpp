// Tensors in files whose data, shape and fields do not fit each other.
#include <gtest/gtest.h>

#include "io/onnx/model_builder.h"
#include "support/guarded.h"

namespace tessera::test::hostile_tensor_test {
namespace {

using tessera_onnx::TensorProto;

TensorProto tensor_of(DType dtype, std::initializer_list<std::int64_t> dims) {
  TensorProto proto;
  proto.set_data_type(static_cast<int>(dtype));
  for (std::int64_t dim : dims) proto.add_dims(dim);
  return proto;
}

// As an initializer of the graph, as the value of a Constant, and alone as test data store it.
void expect_tensor_refused(const std::string& what, ErrorKind kind, const std::string& part, const TensorProto& proto) {
  expect_refused(what, kind, part, [&] { io::read_tensor_proto(bytes_of(proto.SerializeAsString())); });
  ModelBuilder initializer;
  *initializer.graph().add_initializer() = proto;
  initializer.graph().mutable_initializer(0)->set_name("y");
  expect_refused(what + " as initializer", kind, part, [&] { initializer.read(); });
  ModelBuilder constant;
  auto& attribute = add_attribute(constant.node("Constant", {}, {"y"}), "value");
  attribute.set_type(4);
  *attribute.mutable_t() = proto;
  expect_refused(what + " as constant", kind, part, [&] { constant.read(); });
}

TEST(HostileTensor, ShapesThatAskForPetabytesGetNothing) {
  constexpr std::int64_t kPeta = std::int64_t{1} << 50;
  for (const DType dtype : {DType::f32, DType::i64, DType::u8, DType::boolean, DType::f16, DType::string}) {
    expect_tensor_refused("petabytes of nothing", ErrorKind::invalid_model, "the tensor has 0 values, but",
                          tensor_of(dtype, {kPeta}));
  }
  expect_tensor_refused("petabytes of nibbles", ErrorKind::invalid_model,
                        "the tensor has 0 values, but u4[1125899906842624] needs 562949953421312",
                        tensor_of(DType::u4, {kPeta}));
  TensorProto raw = tensor_of(DType::f64, {kPeta});
  raw.set_raw_data("a");
  expect_tensor_refused("petabytes of a byte", ErrorKind::invalid_model,
                        "the tensor has 1 bytes of raw data, but f64[1125899906842624] needs 9007199254740992", raw);
  expect_tensor_refused("more elements than there are numbers", ErrorKind::over_budget, "has too many elements",
                        tensor_of(DType::u8, {kPeta, kPeta}));
  raw = tensor_of(DType::c128, {std::int64_t{1} << 60});
  raw.set_raw_data("a");
  expect_tensor_refused("more bytes than there are numbers", ErrorKind::over_budget,
                        "size overflow: 1152921504606846976 x 16", raw);
  expect_tensor_refused("a negative dimension", ErrorKind::invalid_model, "negative dimension -1 in shape [0, -1]",
                        tensor_of(DType::f32, {0, -1}));
  expect_tensor_refused("the lowest dimension", ErrorKind::invalid_model, "negative dimension -9223372036854775808",
                        tensor_of(DType::f32, {INT64_MIN}));
}

TEST(HostileTensor, NoElementsMayHaveAnyOtherDimensions) {
  const TensorProto proto = tensor_of(DType::f32, {INT64_MAX, 0, INT64_MAX});
  EXPECT_FALSE(
      expect_harmless("no elements", [&] { io::read_tensor_proto(bytes_of(proto.SerializeAsString())); }).kind);
}

TEST(HostileTensor, RawDataHasExactlyTheBytesOfItsShape) {
  struct Case {
    DType dtype;
    std::int64_t elements;
    std::size_t bytes;
  };
  // Sub-byte elements are packed, the last byte filled up.
  const Case cases[] = {{DType::f32, 3, 12}, {DType::i64, 2, 16}, {DType::u8, 3, 3},     {DType::boolean, 3, 3},
                        {DType::bf16, 3, 6}, {DType::c64, 1, 8},  {DType::i4, 3, 2},     {DType::u4, 4, 2},
                        {DType::u2, 5, 2},   {DType::i2, 4, 1},   {DType::f4e2m1, 1, 1}, {DType::f8e8m0, 2, 2}};
  for (const Case& each : cases) {
    TensorProto proto = tensor_of(each.dtype, {each.elements});
    proto.set_raw_data(std::string(each.bytes, '\1'));
    EXPECT_EQ(io::read_tensor_proto(bytes_of(proto.SerializeAsString())).elements(), each.elements);
    for (const std::size_t bytes : {std::size_t{0}, each.bytes - 1, each.bytes + 1, std::size_t{1} << 20}) {
      proto.set_raw_data(std::string(bytes, '\1'));
      expect_refused(
          "raw data of another length", ErrorKind::invalid_model,
          "the tensor has " + std::to_string(bytes) + " bytes of raw data, but " + std::string(name_of(each.dtype)),
          [&] { io::read_tensor_proto(bytes_of(proto.SerializeAsString())); });
    }
  }
}

TEST(HostileTensor, DataStandInOneFieldTheRightOne) {
  TensorProto both = tensor_of(DType::f32, {1});
  both.set_raw_data("abcd");
  both.add_float_data(1);
  expect_tensor_refused("raw and typed data", ErrorKind::invalid_model, "has raw data and typed data", both);
  TensorProto wrong = tensor_of(DType::f32, {1});
  wrong.add_int64_data(1);
  expect_tensor_refused("integers for floats", ErrorKind::invalid_model,
                        "has data in a field for other element types than f32", wrong);
  TensorProto two = tensor_of(DType::f32, {1});
  two.add_float_data(1);
  two.add_double_data(1);
  expect_tensor_refused("floats twice", ErrorKind::invalid_model,
                        "has data in a field for other element types than f32", two);
  TensorProto text = tensor_of(DType::string, {1});
  text.set_raw_data("abcd");
  expect_tensor_refused("raw strings", ErrorKind::invalid_model, "a tensor of strings cannot have raw data", text);
  TensorProto segment = tensor_of(DType::f32, {1});
  segment.mutable_segment()->set_end(1);
  expect_tensor_refused("a segment", ErrorKind::unsupported, "tensors in segments are not supported", segment);
  TensorProto place = tensor_of(DType::f32, {1});
  place.set_data_location(7);
  expect_tensor_refused("data elsewhere", ErrorKind::invalid_model, "unknown data location 7", place);
  TensorProto type = tensor_of(DType::f32, {1});
  type.set_data_type(99);
  expect_tensor_refused("an element type of the future", ErrorKind::unsupported, "unknown element type 99", type);
  type.set_data_type(-1);
  expect_tensor_refused("a negative element type", ErrorKind::unsupported, "unknown element type -1", type);
  TensorProto outside = tensor_of(DType::u8, {1});
  outside.set_data_location(1);
  expect_tensor_refused("external data of nowhere", ErrorKind::invalid_model, "external data without a location",
                        outside);
}

// --- sparse ---

struct Sparse {
  std::vector<std::int64_t> dims, indices_shape, indices;
  std::int64_t values = 1;
};

ModelBuilder sparse_model(const Sparse& sparse) {
  ModelBuilder model;
  auto& proto = *model.graph().add_sparse_initializer();
  proto.mutable_dims()->Assign(sparse.dims.begin(), sparse.dims.end());
  proto.mutable_values()->set_name("y");
  proto.mutable_values()->set_data_type(1);
  proto.mutable_values()->add_dims(sparse.values);
  for (std::int64_t i = 0; i < sparse.values; ++i) proto.mutable_values()->add_float_data(1);
  proto.mutable_indices()->set_data_type(7);
  proto.mutable_indices()->mutable_dims()->Assign(sparse.indices_shape.begin(), sparse.indices_shape.end());
  proto.mutable_indices()->mutable_int64_data()->Assign(sparse.indices.begin(), sparse.indices.end());
  return model;
}

TEST(HostileTensor, SparseIndicesLieInOrderInsideOfTheShape) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  struct Case {
    const char* what;
    Sparse sparse;
    ErrorKind kind;
    const char* part;
  };
  const Case cases[] = {
      {"an index beyond", {{2, 2}, {1}, {4}}, ErrorKind::invalid_model, "index 4 in shape [2, 2]"},
      {"a negative index", {{2, 2}, {1}, {-1}}, ErrorKind::invalid_model, "index -1 in shape [2, 2]"},
      {"a coordinate beyond", {{2, 2}, {1, 2}, {0, 2}}, ErrorKind::invalid_model, "index 2 on axis 1 of shape [2, 2]"},
      {"the lowest coordinate",
       {{2, 2}, {1, 2}, {INT64_MIN, 0}},
       ErrorKind::invalid_model,
       "index -9223372036854775808 on axis 0"},
      {"indices out of order", {{2, 2}, {2}, {3, 1}, 2}, ErrorKind::invalid_model, "index 1 does not come after 3"},
      {"an index twice", {{2, 2}, {2}, {1, 1}, 2}, ErrorKind::invalid_model, "index 1 does not come after 1"},
      {"coordinates out of order",
       {{2, 2}, {2, 2}, {1, 0, 0, 1}, 2},
       ErrorKind::invalid_model,
       "index 1 does not come after 2"},
      {"too few indices", {{2, 2}, {1}, {0}, 2}, ErrorKind::invalid_model, "do not fit 2 values of rank 2"},
      {"indices of another rank",
       {{2, 2}, {1, 3}, {0, 0, 0}},
       ErrorKind::invalid_model,
       "do not fit 1 values of rank 2"},
      {"terabytes when dense",
       {{kHuge}, {1}, {0}},
       ErrorKind::over_budget,
       "has 4398046511104 bytes when dense, but of the limit 268435456 are left"},
      {"no number of bytes when dense", {{kHuge, kHuge}, {1}, {0}}, ErrorKind::over_budget, "has too many elements"},
      {"a negative dimension", {{-2}, {1}, {0}}, ErrorKind::invalid_model, "negative dimension -2"},
      {"a place in nothing", {{0}, {1}, {0}}, ErrorKind::invalid_model, "index 0 in shape [0]"},
  };
  for (const Case& each : cases) {
    const ModelBuilder model = sparse_model(each.sparse);
    expect_refused(each.what, each.kind, each.part, [&] { model.read(); });
  }
}

TEST(HostileTensor, SparseTensorsShareOneLimit) {
  ModelBuilder model = sparse_model({{64 << 20}, {1}, {0}});
  *model.graph().add_sparse_initializer() = model.graph().sparse_initializer(0);
  model.graph().mutable_sparse_initializer(1)->mutable_values()->set_name("z");
  expect_refused("two tensors that fit, each for itself", ErrorKind::over_budget,
                 "has 268435456 bytes when dense, but of the limit 0 are left", [&] { model.read(); });
  EXPECT_EQ(model.error({.limits = {.max_dense_bytes = 1000}}).substr(0, 82),
            "over budget: a sparse tensor of shape [67108864] has 268435456 bytes when dense, b");
}

}  // namespace
}  // namespace tessera::test::hostile_tensor_test
