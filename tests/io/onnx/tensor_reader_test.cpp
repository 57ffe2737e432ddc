#include "io/onnx/tensor_reader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <vector>

#include "io/onnx/model_builder.h"
#include "io/onnx/writer.h"

namespace tessera::test::tensor_reader_test {
namespace {

namespace fs = std::filesystem;
using tessera_onnx::TensorProto;

TensorProto tensor_proto(DType dtype, std::initializer_list<std::int64_t> dims) {
  TensorProto proto;
  proto.set_name("t");
  proto.set_data_type(static_cast<int>(dtype));
  for (std::int64_t dim : dims) proto.add_dims(dim);
  return proto;
}

Tensor read(const TensorProto& proto) {
  return io::read_tensor_proto(bytes_of(proto.SerializeAsString()));
}

std::string error_of(const TensorProto& proto, const std::optional<fs::path>& folder = std::nullopt) {
  try {
    io::TensorReader(folder, nullptr, 0).read(proto);
  } catch (const Error& error) {
    return std::string(to_string(error.kind())) + ": " + error.message();
  }
  return "no error";
}

TEST(TensorReader, ReadsTypedFields) {
  TensorProto half = tensor_proto(DType::f16, {2});
  half.add_int32_data(0x3c00);
  half.add_int32_data(0x4000);
  EXPECT_EQ(read(half).values<f16_t>()[1].bits, 0x4000);

  TensorProto complex = tensor_proto(DType::c64, {1});
  complex.add_float_data(1);
  complex.add_float_data(2);
  EXPECT_EQ(read(complex).values<std::complex<float>>()[0], std::complex<float>(1, 2));

  TensorProto nibbles = tensor_proto(DType::i4, {3});
  nibbles.add_int32_data(0x21);
  nibbles.add_int32_data(0x03);
  const Tensor packed = read(nibbles);
  EXPECT_EQ(packed.bytes(), 2);
  EXPECT_EQ(static_cast<const std::uint8_t*>(packed.raw())[0], 0x21);

  TensorProto text = tensor_proto(DType::string, {1});
  text.add_string_data("hello");
  EXPECT_EQ(read(text).values<std::string>()[0], "hello");

  TensorProto truth = tensor_proto(DType::boolean, {2});
  truth.set_raw_data(std::string("\2\0", 2));
  EXPECT_TRUE(read(truth).values<bool>()[0]);
  EXPECT_EQ(static_cast<const std::uint8_t*>(read(truth).raw())[0], 1) << "only 0 and 1 are values of bool";
}

TEST(TensorReader, RefusesDataOfAnotherLength) {
  TensorProto raw = tensor_proto(DType::f32, {2});
  raw.set_raw_data("1234567");
  EXPECT_EQ(error_of(raw), "invalid model: the tensor has 7 bytes of raw data, but f32[2] needs 8");
  TensorProto typed = tensor_proto(DType::i64, {2});
  typed.add_int64_data(1);
  EXPECT_EQ(error_of(typed), "invalid model: the tensor has 1 values, but i64[2] needs 2");
  TensorProto nibbles = tensor_proto(DType::u4, {3});
  nibbles.set_raw_data("1");
  EXPECT_EQ(error_of(nibbles), "invalid model: the tensor has 1 bytes of raw data, but u4[3] needs 2");
  EXPECT_EQ(error_of(tensor_proto(DType::f32, {-1})), "invalid model: negative dimension -1 in shape [-1]");
  EXPECT_EQ(error_of(tensor_proto(DType::f32, {std::int64_t{1} << 40, std::int64_t{1} << 40})),
            "over budget: shape [1099511627776, 1099511627776] has too many elements");
  EXPECT_EQ(error_of(tensor_proto(DType::undefined, {1})), "invalid model: the element type is undefined");
}

TEST(TensorReader, ReadsSequencesAndOptionals) {
  tessera_onnx::SequenceProto sequence;
  sequence.set_elem_type(1);
  TensorProto element = tensor_proto(DType::i64, {1});
  element.add_int64_data(3);
  *sequence.add_tensor_values() = element;
  const ir::ValueType type = ir::ValueType::sequence(ir::ValueType::tensor(DType::i64));
  const Value value = io::read_value_proto(bytes_of(sequence.SerializeAsString()), type);
  EXPECT_EQ(value.elements().at(0).tensor().values<std::int64_t>()[0], 3);

  tessera_onnx::OptionalProto optional;
  EXPECT_FALSE(io::read_value_proto(bytes_of(optional.SerializeAsString()), ir::ValueType::optional(type)).has_value());
  *optional.mutable_sequence_value() = sequence;
  EXPECT_EQ(
      io::read_value_proto(bytes_of(optional.SerializeAsString()), ir::ValueType::optional(type)).elements().size(),
      1u);
}

// A folder with model data, and a file outside of it.
class ExternalData : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("tessera_external_" + std::to_string(::getpid()));
    fs::remove_all(root_);
    fs::create_directories(folder());
    std::ofstream(folder() / "data") << "abcdefgh";
    std::ofstream(root_ / "secret") << "abcdefgh";
  }
  void TearDown() override { fs::remove_all(root_); }

  fs::path folder() const { return root_ / "model"; }
  TensorProto external(std::initializer_list<std::pair<std::string, std::string>> entries) {
    TensorProto proto = tensor_proto(DType::u8, {4});
    proto.set_data_location(1);
    for (const auto& [key, value] : entries) {
      auto& entry = *proto.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    return proto;
  }
  std::string error(std::initializer_list<std::pair<std::string, std::string>> entries) {
    return error_of(external(entries), folder());
  }

  fs::path root_;
};

TEST_F(ExternalData, IsMapped) {
  const Tensor tensor =
      io::TensorReader(folder(), nullptr, 0).read(external({{"location", "data"}, {"offset", "2"}, {"length", "4"}}));
  EXPECT_EQ(tensor.values<std::uint8_t>()[0], 'c');
}

TEST_F(ExternalData, MustLieInTheFolder) {
  EXPECT_EQ(error({{"location", "../secret"}}), "invalid model: '../secret' leads out of the folder");
  EXPECT_EQ(error({{"location", "a/../../secret"}}), "invalid model: 'a/../../secret' leads out of the folder");
  EXPECT_EQ(error({{"location", (root_ / "secret").string()}}),
            "invalid model: '" + (root_ / "secret").string() + "' is not a relative path");
  EXPECT_EQ(error({{"location", std::string("data\0x", 6)}}), "invalid model: 'data\\x00x' is not a relative path");
  EXPECT_EQ(error({{"location", ""}}), "invalid model: '' is not a relative path");
  EXPECT_EQ(error({{"location", std::string(1 << 20, 'a')}}).substr(0, 20), "invalid model: 'aaaa");
  EXPECT_EQ(error({{"location", "absent"}}), "not found: file 'absent' does not exist");
  EXPECT_EQ(error({{"location", "absent/data"}}), "not found: file 'absent/data' does not exist");
  EXPECT_EQ(error({{"location", "data/data"}}), "not found: file 'data/data' does not exist");
  fs::create_symlink(root_ / "secret", folder() / "link");
  EXPECT_EQ(error({{"location", "link"}}),
            "invalid model: 'link' passes the symbolic link 'link', which may lead out of the folder");
  fs::create_symlink(folder() / "data", folder() / "inner");
  EXPECT_EQ(error({{"location", "inner"}}),
            "invalid model: 'inner' passes the symbolic link 'inner', which may lead out of the folder");
  fs::create_directory_symlink(root_, folder() / "up");
  EXPECT_EQ(error({{"location", "./up//secret"}}),
            "invalid model: './up//secret' passes the symbolic link 'up', which may lead out of the folder");
  fs::create_hard_link(root_ / "secret", folder() / "hard");
  EXPECT_NE(error({{"location", "hard"}}).find("has 2 hard links"), std::string::npos);
}

TEST_F(ExternalData, MustBeARegularFile) {
  ASSERT_EQ(::mkfifo((folder() / "fifo").c_str(), 0600), 0);
  EXPECT_NE(error({{"location", "fifo"}}).find("is not a regular file"), std::string::npos);
  EXPECT_EQ(error({{"location", "."}}), "invalid model: '.' names no file");
  EXPECT_EQ(error({{"location", "data/"}}), "invalid model: 'data/' names no file");
  fs::create_directory(folder() / "below");
  EXPECT_EQ(error({{"location", "below"}}), "input/output error: 'below' is not a regular file");
  EXPECT_EQ(error({{"location", "below/./fifo"}}), "not found: file 'below/./fifo' does not exist");
}

TEST_F(ExternalData, ChecksItsKeys) {
  EXPECT_EQ(error({{"location", "data"}, {"offset", "6"}}),
            "invalid model: external data: 4 bytes at offset 6 of 'data', which has 8 bytes");
  EXPECT_EQ(error({{"location", "data"}, {"offset", "-1"}}),
            "invalid model: external data: offset '-1' is not a number of bytes");
  EXPECT_EQ(error({{"location", "data"}, {"length", "5"}}),
            "invalid model: the tensor has 5 bytes of raw data, but u8[4] needs 4");
  EXPECT_EQ(error({{"location", "data"}, {"mode", "rw"}}), "invalid model: external data: unknown key 'mode'");
  EXPECT_EQ(error({{"offset", "0"}}), "invalid model: external data without a location");
  EXPECT_EQ(error_of(external({{"location", "data"}})),
            "unsupported: external data 'data', but the model was not read from a file");
}

// Most programs write raw data wherever it falls.
TEST(TensorReader, DefersCopiesOfLargeDataThatAreNotAligned) {
  constexpr std::int64_t kCount = 5000;
  const auto file = std::make_shared<std::vector<std::byte>>(4 * kCount * 4 + 64);
  const auto part = [&](std::size_t offset) { return std::span(file->data() + offset, kCount * 4); };
  const std::span<std::byte> aligned = part(0), odd = part(kCount * 4 + 1), tied = part(2 * kCount * 4 + 2),
                             other = part(3 * kCount * 4 + 3);
  for (std::int64_t i = 0; i < kCount; ++i) {
    const auto value = static_cast<float>(i);
    for (const std::span<std::byte> each : {aligned, odd, tied, other}) std::memcpy(each.data() + i * 4, &value, 4);
  }
  other[kCount * 2] ^= std::byte{1};  // in the middle, which the hash does not see
  io::TensorReader reader(std::nullopt, file, 0);
  const TensorProto proto = tensor_proto(DType::f32, {kCount});
  const Tensor a = reader.read(proto, aligned), b = reader.read(proto, odd),
               c = reader.read(tensor_proto(DType::f32, {2, kCount / 2}), tied), d = reader.read(proto, other);
  EXPECT_EQ(a.raw(), aligned.data());
  EXPECT_TRUE(b.is_deferred());
  EXPECT_TRUE(c.shares_storage_with(b));
  EXPECT_EQ(c.shape(), (Shape{2, kCount / 2}));
  EXPECT_FALSE(d.shares_storage_with(b));
  EXPECT_TRUE(identical(a, b) && !identical(a, d));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(d.raw()) % 64, 0u);
  // Integers of another type are no copy of theirs.
  EXPECT_FALSE(reader.read(tensor_proto(DType::i32, {kCount}), odd).shares_storage_with(b));
}

}  // namespace
}  // namespace tessera::test::tensor_reader_test
