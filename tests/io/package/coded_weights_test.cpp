// The codec of pruned weights that share values: the bits come back, and no bytes from a stranger do harm.
#include "io/package/coded_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "io/package/huffman.h"
#include "support/expect_error.h"

namespace tessera::test::coded_weights_test {
namespace {

using io::decode_weights;
using io::encode_weights;

// Weights of which `density` are one of `values` numbers.
std::vector<float> sparse(std::size_t elements, double density, int values, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<float> weights(elements);
  for (float& weight : weights) {
    if (std::generate_canonical<double, 32>(generator) >= density) continue;
    const double middle = static_cast<double>(generator() % 7 * (generator() % 5)) / 24;  // some are frequent
    weight = 0.25f + static_cast<float>(static_cast<int>(middle * (values - 1)));
    if (generator() % 2 == 0 && values > 1)
      weight = 0.25f + static_cast<float>(generator() % static_cast<unsigned>(values));
  }
  return weights;
}

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

void expect_same(std::span<const std::byte> expected, const Tensor& raw, std::size_t offset) {
  EXPECT_EQ(std::memcmp(static_cast<const std::byte*>(raw.raw()) + offset, expected.data(), expected.size()), 0);
}

struct Case {
  std::size_t elements;
  double density;
  int values;
};
class CodedWeights : public testing::TestWithParam<Case> {};

TEST_P(CodedWeights, ComeBackBitForBit) {
  const auto [elements, density, values] = GetParam();
  const std::vector<float> weights = sparse(elements, density, values, 7);
  const std::vector<std::byte> coded = encode_weights({{0, bytes_of(weights), 4}});
  expect_same(bytes_of(weights), decode_weights(coded, 4 * elements), 0);
}

INSTANTIATE_TEST_SUITE_P(Sizes, CodedWeights,
                         testing::Values(Case{0, 0, 1}, Case{1, 1, 1}, Case{1, 0, 1}, Case{100, 0, 1}, Case{100, 1, 1},
                                         Case{1000, 0.1, 2}, Case{5000, 0.002, 16}, Case{65536, 0.05, 16},
                                         Case{65537, 0.3, 250}, Case{200'000, 0.08, 32}, Case{200'000, 0.0001, 3},
                                         Case{70'000, 1, 256}));

TEST(CodedWeightsOfSeveralTensors, KeepTheirPlacesAndWhatCannotBeCoded) {
  const std::vector<float> weights = sparse(3000, 0.1, 8, 1);
  std::vector<float> dense(1000);
  for (std::size_t i = 0; i < dense.size(); ++i) dense[i] = static_cast<float>(i) * 0.1f;
  std::vector<std::int8_t> integers(5000);
  for (std::size_t i = 0; i < integers.size(); i += 3) integers[i] = static_cast<std::int8_t>(i % 5);
  std::vector<float> special(500);
  special[3] = -0.0f;
  special[5] = std::bit_cast<float>(0x7FC12345u);  // a NaN of its own
  const std::vector<std::byte> coded = encode_weights({{0, bytes_of(weights), 4},
                                                       {12'032, bytes_of(dense), 4},
                                                       {20'480, bytes_of(integers), 1},
                                                       {32'768, bytes_of(special), 4},
                                                       {65'536, bytes_of(weights), 0}});
  const Tensor raw = decode_weights(coded, 80'000);
  expect_same(bytes_of(weights), raw, 0);
  expect_same(bytes_of(dense), raw, 12'032);
  expect_same(bytes_of(integers), raw, 20'480);
  expect_same(bytes_of(special), raw, 32'768);
  expect_same(bytes_of(weights), raw, 65'536);
  expect_same(std::vector<std::byte>(20'480 - 16'032), raw, 16'032);
  EXPECT_LT(coded.size(), 12'000 + 4000 + 12'000u);
}

// 8% of weights of 16 values: at most 4 bits a value, and gaps near their entropy of H(0.08) / 0.08 = 5.03 bits.
TEST(CodedWeightsOfSeveralTensors, AreNearlyAsSmallAsTheirEntropy) {
  const std::vector<float> weights = sparse(400'000, 0.08, 16, 3);
  const auto nonzero =
      static_cast<double>(weights.size() - static_cast<std::size_t>(std::ranges::count(weights, 0.0f)));
  const std::vector<std::byte> coded = encode_weights({{0, bytes_of(weights), 4}});
  EXPECT_LT(8 * static_cast<double>(coded.size()), (4 + 5.03) * 1.02 * nonzero + 8 * 300);
}

TEST(Huffman, LimitsTheLengthsOfCodes) {
  std::vector<std::uint64_t> counts{1, 1};
  while (counts.size() < 40) counts.push_back(counts[counts.size() - 1] + counts[counts.size() - 2]);
  const io::HuffmanEncoder encoder(counts);
  double kraft = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    EXPECT_LE(encoder.code(i).length, io::kMostCodeBits);
    kraft += std::exp2(-encoder.code(i).length);
  }
  EXPECT_DOUBLE_EQ(kraft, 1);
  EXPECT_LE(encoder.code(39).length, 2);
}

// --- bytes that lie ---

std::vector<std::byte> good() {
  static const std::vector<float> weights = sparse(2000, 0.2, 9, 4);
  return encode_weights({{0, bytes_of(weights), 4}});
}

TEST(HostileCodedWeights, AreRefusedWhenCutOff) {
  const std::vector<std::byte> whole = good();
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_THROW(decode_weights(std::span(whole).first(length), 8000), Error) << length;
  std::vector<std::byte> longer = whole;
  longer.push_back(std::byte{0});
  expect_error(ErrorKind::invalid_model, "coded weights go on behind their end", [&] { decode_weights(longer, 8000); });
}

TEST(HostileCodedWeights, DoNoHarmWhateverByteIsWrong) {
  const std::vector<std::byte> whole = good();
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int value : {0, 1, 0x7F, 0xFF}) {
      std::vector<std::byte> wrong = whole;
      wrong[at] = static_cast<std::byte>(value);
      try {
        decode_weights(wrong, 8000);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::invalid_model);
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 100);
}

// A section of one piece: its head, and what follows.
std::vector<std::byte> piece(std::uint64_t offset, std::uint64_t bytes, std::uint32_t form,
                             const std::vector<std::uint32_t>& rest, const std::vector<std::uint8_t>& tail = {}) {
  io::ByteWriter out;
  out.u32(1);
  out.u64(offset);
  out.u64(bytes);
  out.u32(form);
  for (const std::uint32_t number : rest) out.u32(number);
  out.raw(std::as_bytes(std::span(tail)));
  return out.take();
}

TEST(HostileCodedWeights, AreRefusedByWhatIsWrong) {
  const auto refuses = [](const std::string& message, const std::vector<std::byte>& stored) {
    expect_error(ErrorKind::invalid_model, message, [&] { decode_weights(stored, 640); });
  };
  refuses("coded weights of 641 bytes at byte 0 of 640 lie outside, or over those before them", piece(0, 641, 1, {}));
  refuses("coded weights of 64 bytes at byte 32 of 640 lie outside, or over those before them", piece(32, 64, 1, {}));
  refuses("coded weights of 1 bytes at byte 18446744073709551552 of 640 lie outside, or over those before them",
          piece(~std::uint64_t{63}, 1, 1, {}));
  refuses("weights are coded in form 2, which is unknown", piece(0, 64, 2, {}));
  refuses("64 bytes of coded weights of 2 bytes each, expected 1 or 4", piece(0, 64, 1, {2}));
  refuses("62 bytes of coded weights of 4 bytes each, expected 1 or 4", piece(0, 62, 1, {4}));
  refuses("a list of 1000 entries does not fit in the 0 bytes that are left", piece(0, 64, 1, {4, 1000}));
  // A codebook of one value; gaps 0 and 1 of one bit each; a code for the value.
  const std::vector<std::uint8_t> codes{2, 0, 0, 0, 0x11, 1, 0, 0, 0, 0x01};
  const auto chunk = [&](std::uint8_t weights, std::uint8_t bytes, std::vector<std::uint8_t> stream) {
    std::vector<std::uint8_t> tail = codes;
    for (const std::uint8_t number : {weights, bytes}) tail.insert(tail.end(), {number, 0, 0, 0});
    tail.insert(tail.end(), stream.begin(), stream.end());
    return piece(0, 64, 1, {4, 1, 0x3F800000}, tail);
  };
  EXPECT_EQ(static_cast<const float*>(decode_weights(chunk(8, 1, {0xFF}), 640).raw())[15], 1.0f);
  refuses("a coded weight is at place 16 of 16", chunk(16, 2, {0x01, 0x00}));
  refuses("17 coded weights in a chunk of 16 elements", chunk(17, 2, {0, 0}));
  refuses("the codes of weights end too early, after 1 bytes", chunk(9, 1, {0x00}));
  std::vector<std::byte> incomplete = chunk(8, 1, {0xFF});
  incomplete[24 + 12 + 4] = std::byte{0x21};  // lengths 1 and 2
  refuses("the lengths of a code's words fill 3072 of 4096 places: they are no Huffman code", incomplete);
  incomplete[24 + 12 + 4] = std::byte{0xD1};
  refuses("a code of 13 bits, at most 12 are possible", incomplete);
  incomplete = chunk(8, 1, {0xFF});
  incomplete[24 + 12 + 5] = std::byte{2};  // symbols of a codebook of one
  refuses("a code has 2 symbols where at most 1 are possible", incomplete);
}

}  // namespace
}  // namespace tessera::test::coded_weights_test
