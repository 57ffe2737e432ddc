#include "io/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "io/file.h"
#include "support/error_of.h"
#include "support/random_tensor.h"
#include "support/temporary_folder.h"

namespace tessera::io::npy_test {
namespace {

using test::error_of;
using testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string npy(const std::string& dictionary, const std::string& data, char version = 1) {
  std::string length = {static_cast<char>(dictionary.size() & 0xFF), static_cast<char>(dictionary.size() >> 8)};
  if (version > 1) length += std::string(2, '\0');
  return std::string("\x93NUMPY") + version + '\0' + length + dictionary + data;
}

std::string dictionary(const std::string& descr, const std::string& shape, const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

Tensor read(const std::string& text) {
  return read_npy_bytes(bytes_of(text));
}

std::string read_error(const std::string& text) {
  return error_of([&] { read(text); });
}

TEST(Npy, ReadsBackWhatItWrote) {
  const test::TemporaryFolder folder;
  for (DType type : {DType::boolean, DType::i8, DType::u8, DType::i16, DType::u16, DType::i32, DType::u32, DType::i64,
                     DType::u64, DType::f16, DType::f32, DType::f64}) {
    for (const Shape& shape : {Shape{}, Shape{5}, Shape{2, 3, 4}, Shape{3, 0, 2}}) {
      const Tensor tensor = test::random_tensor(type, shape, 1, 0, 1);
      write_npy(folder / "a.npy", tensor);
      EXPECT_TRUE(identical(read_npy(folder / "a.npy"), tensor)) << name_of(type) << " " << to_string(shape);
    }
  }
  const Tensor complex = Tensor::from<std::complex<float>>({2}, {{1, 2}, {3, -4}});
  write_npy(folder / "a.npy", complex);
  EXPECT_TRUE(identical(read_npy(folder / "a.npy"), complex));
}

TEST(Npy, WritesTheHeaderThatNumpyWrites) {
  const NpyImage image = npy_image(Tensor::from<float>({3}, {1, 2, 3}));
  EXPECT_EQ(image.header.size() % 64, 0u);
  EXPECT_THAT(image.header, HasSubstr("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }  "));
  EXPECT_THAT(npy_image(Tensor::scalar<std::uint8_t>(1)).header, HasSubstr("'descr': '|u1'"));
  EXPECT_THAT(npy_image(Tensor::scalar<std::uint8_t>(1)).header, HasSubstr("'shape': ()"));
  EXPECT_THAT(npy_image(Tensor(DType::i64, {2, 5})).header, HasSubstr("'shape': (2, 5)"));
}

TEST(Npy, StringsAreUnicode) {
  const Tensor strings = Tensor::from<std::string>({2, 2}, {"", "a", "größer", "字 \xF0\x9F\x98\x80"});
  const NpyImage image = npy_image(strings);
  EXPECT_THAT(image.header, HasSubstr("'<U6'"));
  std::string file = image.header;
  file.append(reinterpret_cast<const char*>(image.bytes().data()), image.bytes().size());
  EXPECT_TRUE(identical(read(file), strings));
  EXPECT_TRUE(identical(read(npy(dictionary("|S3", "(2,)"), std::string("ab\0cde", 6))),
                        Tensor::from<std::string>({2}, {"ab", "cde"})));
  EXPECT_TRUE(identical(read(npy(dictionary(">U1", "(1,)"), std::string("\0\0\0x", 4))),
                        Tensor::from<std::string>({1}, {"x"})));
  EXPECT_THAT(read_error(npy(dictionary("<U1", "(1,)"), std::string("\0\xD8\0\0", 4))),
              HasSubstr("0xd800, which is no Unicode"));
  for (const char* broken : {"\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "a\xE2\x82", "\x80"}) {
    EXPECT_THAT(error_of([&] { npy_image(Tensor::from<std::string>({1}, {broken})); }), HasSubstr("not UTF-8"));
  }
}

TEST(Npy, OrderOfBytesAndElements) {
  EXPECT_TRUE(identical(read(npy(dictionary(">i4", "(2,)"), std::string("\0\0\1\2\xFF\xFF\xFF\xFF", 8))),
                        Tensor::from<std::int32_t>({2}, {258, -1})));
  // Each half of a complex number has its own order: 1 + 2i.
  EXPECT_TRUE(identical(read(npy(dictionary(">c8", "()"), std::string("\x3F\x80\0\0\x40\0\0\0", 8))),
                        Tensor::from<std::complex<float>>({}, {{1, 2}})));
  EXPECT_TRUE(identical(read(npy(dictionary("|u1", "(2, 3)", "True"), "adbecf")),
                        Tensor::from<std::uint8_t>({2, 3}, {'a', 'b', 'c', 'd', 'e', 'f'})));
  EXPECT_TRUE(identical(read(npy(dictionary("|b1", "(3,)"), std::string("\0\1\x7F", 3))),
                        Tensor::from<bool>({3}, {false, true, true})));
  for (char version : {2, 3}) EXPECT_EQ(read(npy(dictionary("|i1", "(1,)"), "A", version)).data<std::int8_t>()[0], 'A');
}

TEST(Npy, WritesTypesThatNumpyLacksAsMlDtypesDoes) {
  const test::TemporaryFolder folder;
  for (DType type : {DType::bf16, DType::f8e4m3fn, DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz, DType::f8e8m0,
                     DType::f4e2m1, DType::i4, DType::u4, DType::i2, DType::u2}) {
    for (const Shape& shape : {Shape{}, Shape{5}, Shape{2, 3, 3}, Shape{3, 0}}) {
      Tensor tensor(type, shape);
      auto* bytes = static_cast<std::uint8_t*>(tensor.mutable_raw());
      for (std::int64_t i = 0; i < tensor.bytes(); ++i) bytes[i] = static_cast<std::uint8_t>(37 * i + 0xD9);
      // Bits behind the last element are zeros.
      const std::int64_t used = tensor.elements() * bits_of(type) % 8;
      if (used != 0) bytes[tensor.bytes() - 1] &= static_cast<std::uint8_t>((1 << used) - 1);
      write_npy(folder / "a.npy", tensor);
      EXPECT_TRUE(identical(read_npy(folder / "a.npy", type), tensor)) << name_of(type) << " " << to_string(shape);
    }
  }
  EXPECT_THAT(npy_image(Tensor(DType::bf16, {2})).header, HasSubstr("'<V2'"));
  EXPECT_THAT(npy_image(Tensor(DType::f8e5m2, {2})).header, HasSubstr("'<V1'"));
  // Elements of 4 bits take a byte each.
  Tensor nibbles(DType::i4, {3});
  static_cast<std::uint8_t*>(nibbles.mutable_raw())[0] = 0xF7;
  static_cast<std::uint8_t*>(nibbles.mutable_raw())[1] = 0x08;
  EXPECT_TRUE(identical(npy_image(nibbles).data, Tensor::from<std::uint8_t>({3}, {0x07, 0x0F, 0x08})));
}

TEST(Npy, ReadsTypesOfMlDtypes) {
  EXPECT_TRUE(identical(read(npy(dictionary("<V2", "(2,)"), std::string("\x80\x3F\0\xC0", 4))),
                        Tensor::from<bf16_t>({2}, {bf16_t{0x3F80}, bf16_t{0xC000}})));
  // So NumPy itself writes what it has read without ml_dtypes.
  EXPECT_EQ(read(npy(dictionary("|V2", "(1,)"), "ab")).dtype(), DType::bf16);
  EXPECT_EQ(read(npy(dictionary("<f1", "(1,)"), "a")).dtype(), DType::f8e5m2);
  const auto read_raw = [](const std::string& data, DType type) {
    return error_of([&] { read_npy_bytes(bytes_of(npy(dictionary("<V1", "(1,)"), data)), type); });
  };
  EXPECT_THAT(read_raw("1", DType::undefined), HasSubstr("and nothing says which"));
  EXPECT_THAT(read_raw("1", DType::f32), HasSubstr("but f32 is expected"));
  EXPECT_TRUE(identical(npy_image(read_npy_bytes(bytes_of(npy(dictionary("<V1", "(2,)"), "\xFF\x0E")), DType::i4)).data,
                        Tensor::from<std::uint8_t>({2}, {0x0F, 0x0E})));
  EXPECT_THAT(read_raw("\x71", DType::i4), HasSubstr("raw byte 0x71 at element 0 is no value of i4"));
}

TEST(Npy, RefusesLiesAndWhatItCannotKnow) {
  EXPECT_THAT(read_error(""), HasSubstr("only 0 bytes"));
  EXPECT_THAT(read_error("0123456789ab"), HasSubstr("wrong first bytes"));
  EXPECT_THAT(read_error(npy(dictionary("<f4", "(2,)"), "1234")),
              HasSubstr(".npy shape [2] needs 8 bytes of data, found 4"));
  EXPECT_THAT(read_error(npy(dictionary("|u1", "(2,)"), "123")), HasSubstr("needs 2 bytes of data, found 3"));
  EXPECT_THAT(read_error(npy(dictionary("<f8", "(4611686018427387904, 8)"), "")), HasSubstr("too many elements"));
  EXPECT_THAT(read_error(npy(dictionary("<f8", "(4611686018427387904,)"), "")), HasSubstr("size overflow"));
  EXPECT_THAT(read_error(npy(dictionary("<f4", "(-1,)"), "")), HasSubstr("negative dimension -1"));
  EXPECT_THAT(read_error(npy(dictionary("<f4", "(99999999999999999999,)"), "")), HasSubstr("not a 64-bit integer"));
  EXPECT_THAT(read_error(npy(dictionary("<U0", "(1099511627776,)"), "")), HasSubstr("elements of zero bytes"));
  EXPECT_THAT(read_error(npy(dictionary("|O", "(1,)"), "12345678")), HasSubstr("object arrays are refused"));
  EXPECT_THAT(read_error(npy(dictionary("<V3", "(1,)"), "123")), HasSubstr("have one or two bytes"));
  EXPECT_THAT(read_error(npy(dictionary("<f16", "(1,)"), "")), HasSubstr("'<f16' is not supported"));
  EXPECT_THAT(read_error(npy(dictionary("|f4", "(1,)"), "1234")), HasSubstr("no byte order"));
  EXPECT_THAT(read_error(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "1234")),
              HasSubstr("structured"));
  EXPECT_THAT(read_error(npy("{'descr': '<f4', 'descr': '<f4'}", "")), HasSubstr("stands twice"));
  EXPECT_THAT(read_error(npy("{'descr': '<f4', 'shape': (1)}", "")), HasSubstr("not a tuple"));
  EXPECT_THAT(read_error(npy("{'descr': '<f4', 'shape': (1,)}", "")), HasSubstr("is missing"));
  EXPECT_THAT(read_error(npy("{'code': __import__('os')}", "")), HasSubstr("unknown key 'code'"));
  EXPECT_THAT(read_error(npy(dictionary("<f4", "(1,)") + "x", "1234")), HasSubstr("after the closing brace"));
  EXPECT_THAT(read_error(std::string("\x93NUMPY\x01\0\xFF\x7F", 10)), HasSubstr("truncated .npy header"));
  EXPECT_THAT(read_error(std::string("\x93NUMPY\x02\0\xFF\xFF\xFF\xFF", 12)), HasSubstr("at most 65536"));
  EXPECT_THAT(read_error(std::string("\x93NUMPY\x04\0\0\0", 10)), HasSubstr("version 4.0"));
}

TEST(Npy, EveryTruncationIsAnError) {
  const std::string whole = npy(dictionary("<i8", "(2, 2)"), std::string(32, 'x'));
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_NE(read_error(whole.substr(0, size)), "") << size;
  EXPECT_EQ(read_error(whole), "");
}

TEST(Npy, NamesTheFile) {
  const test::TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { read_npy(folder / "none.npy"); }), HasSubstr("none.npy' does not exist"));
  EXPECT_THAT(error_of([&] { read_npy(folder.path()); }), HasSubstr("not a regular file"));
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { read_npy(folder / "pipe"); }), HasSubstr("not a regular file"));
  std::ofstream(folder / "bad.npy") << "0123456789ab";
  EXPECT_THAT(error_of([&] { read_npy(folder / "bad.npy"); }), HasSubstr("bad.npy)"));
}

TEST(Npy, AFailedWriteLosesNothing) {
  const test::TemporaryFolder folder;
  const Tensor first = Tensor::scalar<float>(1);
  write_npy(folder / "a.npy", first);
  EXPECT_NE(error_of([&] { write_npy(folder / "a.npy", Tensor::from<std::string>({1}, {"\xFF"})); }), "");
  EXPECT_TRUE(identical(read_npy(folder / "a.npy"), first));
  EXPECT_THAT(error_of([&] { write_npy("/dev/null", first); }), HasSubstr("it is not a regular file"));
  EXPECT_THAT(error_of([&] { write_npy(folder / "none/a.npy", first); }), HasSubstr("none' does not exist"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

}  // namespace
}  // namespace tessera::io::npy_test
