// Ranks as threads and over sockets: both keep the contract of base::Communicator.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>

#include "dist/rank_message.h"
#include "dist/rendezvous.h"
#include "dist/socket_ranks.h"
#include "dist/thread_ranks.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"
#include "tessera/error.h"

namespace tessera::dist::ranks_test {
namespace {

using Ranks = std::vector<std::shared_ptr<base::Communicator>>;

// Descriptors of connected sockets, [from][to].
std::vector<std::vector<SocketPeer>> connected_peers(int size) {
  std::vector<std::vector<SocketPeer>> peers(static_cast<std::size_t>(size),
                                             std::vector<SocketPeer>(static_cast<std::size_t>(size)));
  for (std::size_t a = 0; a < peers.size(); ++a) {
    for (std::size_t b = a + 1; b < peers.size(); ++b) {
      int pair[2];
      EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
      peers[a][b] = {pair[0], "here", 100 + static_cast<std::int64_t>(b)};
      peers[b][a] = {pair[1], "here", 100 + static_cast<std::int64_t>(a)};
    }
  }
  return peers;
}

Ranks make_sockets(int size, std::chrono::nanoseconds timeout = std::chrono::seconds(60)) {
  Ranks ranks;
  std::vector<std::vector<SocketPeer>> peers = connected_peers(size);
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back(make_socket_ranks(rank, std::move(peers[static_cast<std::size_t>(rank)]), {timeout}));
  return ranks;
}

void on_each(const Ranks& ranks, const std::function<void(base::Communicator&)>& work) {
  std::vector<std::thread> threads;
  for (const auto& rank : ranks) threads.emplace_back([&work, &rank] { work(*rank); });
  for (std::thread& thread : threads) thread.join();
}

class Communicates : public ::testing::TestWithParam<std::pair<bool, int>> {
 protected:
  static Ranks make() {
    const auto [sockets, size] = GetParam();
    return sockets ? make_sockets(size) : make_thread_ranks(size);
  }
};

TEST_P(Communicates, GathersBroadcastsAndAgrees) {
  const Ranks ranks = make();
  on_each(ranks, [](base::Communicator& own) {
    for (int round = 0; round < 20; ++round) {
      // Texts of different lengths, some longer than what a socket buffers.
      const std::string text(static_cast<std::size_t>(own.rank()) * 200'000 + 1, static_cast<char>('a' + own.rank()));
      const auto all = own.gather("texts", std::as_bytes(std::span(text)));
      ASSERT_EQ(all.size(), static_cast<std::size_t>(own.size()));
      for (std::size_t rank = 0; rank < all.size(); ++rank) {
        ASSERT_EQ(all[rank].size(), rank * 200'000 + 1);
        ASSERT_EQ(static_cast<std::size_t>(all[rank].back()), 'a' + rank);
      }
      ASSERT_EQ(own.broadcast("first", std::as_bytes(std::span(text))).size(), 1u);
      ASSERT_EQ(own.agree("yes", own.rank() == 0), true);
      ASSERT_EQ(own.agree("no", own.rank() != 0), false);
      own.barrier("end");
    }
  });
}

TEST_P(Communicates, EndsAllRanksWhenOneStops) {
  const Ranks ranks = make();
  if (ranks.size() == 1) return;
  on_each(ranks, [](base::Communicator& own) {
    if (own.rank() == 1) return own.stop("a sample cannot be read");
    const std::string message = test::error_of([&] { own.barrier("never"); });
    EXPECT_NE(message.find("rank 1"), std::string::npos) << message;
    EXPECT_NE(message.find("a sample cannot be read"), std::string::npos) << message;
    EXPECT_EQ(test::error_of([&] { own.barrier("later"); }), message);
  });
}

TEST_P(Communicates, RefusesSizesThatDisagree) {
  const Ranks ranks = make();
  if (ranks.size() == 1) return;
  on_each(ranks, [](base::Communicator& own) {
    std::vector<std::byte> bytes(own.rank() == 0 ? 8 : 4), received(16);
    base::Exchange exchange{"sums", {}, {}, {}};
    for (int rank = 0; rank < own.size(); ++rank) {
      exchange.sends.emplace_back(rank == own.rank() ? std::span<std::byte>() : std::span(bytes));
      exchange.receives.emplace_back(rank == own.rank() ? std::span<std::byte>()
                                                        : std::span(received).first(bytes.size()));
    }
    EXPECT_NE(test::error_of([&] { own.run(exchange); }).find("expect"), std::string::npos);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Communicates,
                         ::testing::Values(std::pair(false, 1), std::pair(false, 4), std::pair(true, 2),
                                           std::pair(true, 4)));

TEST(Rendezvous, NamesARankThatDoesNotComeAndLeavesNothingBehind) {
  const test::TemporaryFolder parent;
  const std::string folder = (parent.path() / "ranks").string();
  for (const int rank : {0, 1}) {
    const std::string message =
        test::error_of([&] { join_ranks({rank, 2, folder}, {std::chrono::milliseconds(150)}); });
    EXPECT_NE(message.find(std::to_string(1 - rank)), std::string::npos) << message;
    EXPECT_NE(message.find("come to the meeting"), std::string::npos) << message;
    EXPECT_FALSE(std::filesystem::exists(folder)) << "rank " << rank;
  }
  const std::string long_name = (parent.path() / std::string(200, 'x')).string();
  EXPECT_NE(test::error_of([&] { join_ranks({0, 2, long_name}, {}); }).find("too long"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(long_name));
}

TEST(SocketRanks, NamesARankThatIsGone) {
  std::vector<std::vector<SocketPeer>> peers = connected_peers(2);
  const auto own = make_socket_ranks(0, std::move(peers[0]), {});
  ::shutdown(peers[1][0].descriptor, SHUT_RDWR);
  const std::string message = test::error_of([&] { own->barrier("step"); });
  EXPECT_NE(message.find("rank 1 (host here, process 101, step 0) is gone"), std::string::npos) << message;
  close(peers[1][0].descriptor);
}

TEST(SocketRanks, NamesARankThatDoesNotAnswerOrIsElsewhere) {
  std::vector<std::vector<SocketPeer>> peers = connected_peers(2);
  const auto own = make_socket_ranks(0, std::move(peers[0]), {std::chrono::milliseconds(700)});
  EXPECT_NE(test::error_of([&] { own->barrier("step"); }).find("has not answered"), std::string::npos);
  close(peers[1][0].descriptor);

  const Ranks both = make_sockets(2, std::chrono::milliseconds(1500));
  const std::string message = test::error_of([&] { both[0]->barrier("step"); });
  EXPECT_NE(message.find("rank 1 (host here, process 101, step 0) has not reached 'step' within"), std::string::npos)
      << message;
}

TEST(SocketRanks, RefusesBytesThatAreNoMessage) {
  std::vector<std::vector<SocketPeer>> peers = connected_peers(2);
  const auto own = make_socket_ranks(0, std::move(peers[0]), {});
  const std::string noise(200, 'x');
  ASSERT_GT(send(peers[1][0].descriptor, noise.data(), noise.size(), MSG_NOSIGNAL), 0);
  EXPECT_NE(test::error_of([&] { own->barrier("step"); }).find("sent bytes that are no message"), std::string::npos);
  close(peers[1][0].descriptor);
}

TEST(RankMessage, HeadersAreChecked) {
  const auto read = [](const RankHeader& header, std::uint32_t rank = 3) {
    std::array<std::byte, sizeof header> bytes;
    std::memcpy(bytes.data(), &header, sizeof header);
    return read_rank_header(bytes, rank);
  };
  RankHeader good;
  good.rank = 3;
  good.kind = RankMessageKind::exchange;
  good.bytes = 12;
  good.set_name("gradients 0");
  EXPECT_EQ(read(good).name_text(), "gradients 0");
  const auto refuses = [&](const char* text, const std::function<void(RankHeader&)>& change) {
    RankHeader bad = good;
    change(bad);
    EXPECT_NE(test::error_of([&] { read(bad); }).find(text), std::string::npos) << text;
  };
  refuses("another version", [](RankHeader& header) { header.version = 9; });
  refuses("unknown kind", [](RankHeader& header) { header.kind = static_cast<RankMessageKind>(77); });
  refuses("says that it is from rank 4", [](RankHeader& header) { header.rank = 4; });
  refuses("-1 bytes", [](RankHeader& header) { header.bytes = -1; });
  refuses("expected 0 to 0", [](RankHeader& header) { header.kind = RankMessageKind::alive; });
  refuses("has the number -2", [](RankHeader& header) { header.number = -2; });
  refuses("without an end", [](RankHeader& header) { header.name.fill('n'); });
}

}  // namespace
}  // namespace tessera::dist::ranks_test
