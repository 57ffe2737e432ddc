#include "io/package/weight_stream.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <chrono>
#include <memory>
#include <thread>

#include "io/package/piece_list.h"
#include "support/expect_error.h"

namespace tessera::test::weight_stream_test {
namespace {

using io::PieceUse;
using Pieces = std::vector<io::StreamedPiece>;
using namespace std::chrono_literals;

constexpr std::size_t kPiece = 256 << 10;

// Pieces side by side in one block.
class WeightStreamTest : public testing::Test {
 protected:
  Pieces pieces(const std::vector<PieceUse>& uses) {
    bytes.resize(uses.size() * kPiece);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 1000);
    Pieces made;
    for (std::size_t i = 0; i < uses.size(); ++i) {
      const auto part = std::span<const std::byte>(bytes).subspan(i * kPiece, kPiece);
      made.push_back({part, XXH3_64bits(part.data(), part.size()), uses[i]});
    }
    return made;
  }
  std::vector<std::byte> bytes;
};

TEST_F(WeightStreamTest, ReadsWhatTheFirstRunUsesInItsOrder) {
  io::WeightStream stream(pieces({PieceUse::whole, PieceUse::parts, PieceUse::whole, PieceUse::none}), nullptr);
  EXPECT_EQ(stream.queued(), 3u);
  EXPECT_FALSE(stream.is_complete());
  stream.set_groups({1, 2, 3});
  stream.set_rate(2e6);  // 130 ms a piece: the bucket begins empty
  stream.start();
  stream.start();
  while (!stream.wait_for(0, 1s)) continue;
  EXPECT_FALSE(stream.has(1));
  while (!stream.wait_for(2, 1s)) continue;
  EXPECT_FALSE(stream.has(1)) << "what is read in part comes last";
  while (!stream.wait_for(1, 1s)) continue;
  EXPECT_FALSE(stream.has(3));
  while (!stream.is_complete()) std::this_thread::yield();
  EXPECT_EQ(stream.report().groups, 3);
  EXPECT_EQ(stream.report().bytes, static_cast<std::int64_t>(3 * kPiece));
  EXPECT_GE(stream.report().seconds, 3.0 * kPiece / 2e6 * 0.99);
  EXPECT_TRUE(stream.wait_for(3, 0ns)) << "who asks for another piece reads it";
}

TEST_F(WeightStreamTest, AGroupArrivesAsAWhole) {
  io::WeightStream stream(pieces({PieceUse::whole, PieceUse::whole, PieceUse::whole}), nullptr);
  stream.set_groups({2, 3});
  stream.set_rate(2e6);
  stream.start();
  while (!stream.wait_for(0, 1s)) continue;
  EXPECT_TRUE(stream.has(1));
  EXPECT_FALSE(stream.has(2));
}

TEST_F(WeightStreamTest, DamageIsAnErrorOfThePieceAlone) {
  io::WeightStream stream(pieces({PieceUse::whole, PieceUse::whole, PieceUse::none, PieceUse::none}), nullptr);
  bytes[kPiece + 5] ^= std::byte{1};
  bytes[3 * kPiece - 1] ^= std::byte{1};
  stream.start();
  while (!stream.wait_for(0, 1s)) continue;
  for (const std::size_t damaged : {1, 2}) {
    for (int again = 0; again < 2; ++again)
      expect_error_containing(ErrorKind::invalid_model, "262144 bytes of the package's weights are damaged", [&] {
        while (!stream.wait_for(damaged, 1s)) continue;
      });
  }
  EXPECT_TRUE(stream.wait_for(3, 0ns));
  EXPECT_FALSE(stream.is_complete());
  stream.need(bytes.data() + 3 * kPiece + 1, 1);
  expect_error_containing(ErrorKind::invalid_model, "damaged", [&] { stream.need(bytes.data() + 3 * kPiece - 1, 2); });
}

TEST_F(WeightStreamTest, FindsThePiecesOfARange) {
  const io::WeightStream stream(pieces({PieceUse::none, PieceUse::none, PieceUse::none}), nullptr);
  const std::byte* begin = bytes.data();
  EXPECT_EQ(stream.find(begin, 1), (std::vector<std::size_t>{0}));
  EXPECT_EQ(stream.find(begin + kPiece - 1, 2), (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(stream.find(begin + kPiece, kPiece + 1), (std::vector<std::size_t>{1, 2}));
  EXPECT_TRUE(stream.find(begin + 3 * kPiece, 10).empty());
  EXPECT_TRUE(stream.is_complete());
}

TEST_F(WeightStreamTest, EndsInTheMiddleOfReading) {
  const io::WeightStream stream(pieces(std::vector<PieceUse>(64, PieceUse::whole)), nullptr);
  // All would take 1.7 s.
  const auto begin = std::chrono::steady_clock::now();
  {
    const std::unique_ptr<io::WeightStream> ending(
        new io::WeightStream({stream.pieces().begin(), stream.pieces().end()}, nullptr));
    ending->set_rate(10e6);
    ending->start();
    while (!ending->wait_for(0, 1s)) continue;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 1.5s);
}

TEST_F(WeightStreamTest, RefusesOverlaps) {
  Pieces overlapping = pieces({PieceUse::whole, PieceUse::whole});
  overlapping[1].bytes = std::span<const std::byte>(bytes).subspan(kPiece - 1, 10);
  expect_error(ErrorKind::invalid_model, "two pieces of weights overlap",
               [&] { io::WeightStream(overlapping, nullptr); });
}

TEST(PieceList, ComesBackAndIsChecked) {
  const std::vector<std::byte> constants(100, std::byte{1}), packed(200, std::byte{2});
  const std::span<const std::byte> some(constants);
  const auto list_of = [&](bool is_packing, std::uint64_t offset, std::size_t bytes, std::uint32_t use) {
    io::PieceListWriter writer;
    writer.add(is_packing, offset, some.first(bytes), static_cast<PieceUse>(use));
    writer.add(is_packing, offset, some.first(bytes), PieceUse::none);  // known
    writer.add(is_packing, offset + 1, {}, PieceUse::none);             // empty
    return writer.take();
  };
  const auto read = [&](const std::vector<std::byte>& list) { return io::read_pieces(list, constants, packed); };
  const Pieces pieces = read(list_of(true, 64, 50, 2));
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].bytes.data(), packed.data() + 64);
  EXPECT_EQ(pieces[0].bytes.size(), 50u);
  EXPECT_EQ(pieces[0].use, PieceUse::parts);
  EXPECT_TRUE(pieces[0].is_packing);
  EXPECT_EQ(pieces[0].checksum, XXH3_64bits(constants.data(), 50));

  const auto refuses = [&](const std::string& message, std::vector<std::byte> list) {
    expect_error(ErrorKind::invalid_model, message, [&] { read(list); });
  };
  refuses("a piece of weights has 50 bytes from byte 64 on of a section of 100", list_of(false, 64, 50, 1));
  refuses("a piece of weights has 1 bytes from byte 18446744073709551615 on of a section of 200",
          list_of(true, UINT64_MAX, 1, 1));
  refuses("a piece of weights has the use 3, expected 0 to 2", list_of(true, 0, 1, 3));
  std::vector<std::byte> list = list_of(false, 0, 10, 1);
  list[4] = std::byte{2};
  refuses("a piece of weights has the kind 2, expected 0 or 1", list);
  list = list_of(false, 0, 10, 1);
  list.push_back({});
  refuses("the list of pieces of weights goes on behind its end", list);
  list.resize(20);
  refuses("a list of 1 entries does not fit in the 16 bytes that are left", list);
}

}  // namespace
}  // namespace tessera::test::weight_stream_test
