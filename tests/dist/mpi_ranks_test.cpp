// Ranks over MPI keep the contract of base::Communicator. MPI starts once in a process and with all ranks, so there is
// one test, which mpirun runs (tests/CMakeLists.txt) and which is skipped elsewhere.
#include "dist/mpi_ranks.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "dist/rendezvous.h"
#include "support/error_of.h"
#include "tessera/error.h"

namespace tessera::dist::mpi_ranks_test {
namespace {

std::byte byte_of(int from, int to, std::size_t at) {
  return static_cast<std::byte>(static_cast<std::size_t>(from * 7 + to * 3) + at * 11);
}

// Begins an exchange in which each rank sends each other one bytes of its own, and returns its completion.
struct Sent {
  std::vector<std::vector<std::byte>> sends, receives;
  std::shared_ptr<base::Completion> done = std::make_shared<base::Completion>();

  Sent(base::Communicator& own, const std::string& name, std::size_t bytes) {
    base::Exchange exchange{name, {}, {}, [done = done](std::exception_ptr error) { done->complete(error); }};
    for (int rank = 0; rank < own.size(); ++rank) {
      sends.emplace_back(bytes);
      for (std::size_t i = 0; i < bytes; ++i) sends.back()[i] = byte_of(own.rank(), rank, i);
      receives.emplace_back(bytes);
    }
    for (std::size_t rank = 0; rank < sends.size(); ++rank) {
      exchange.sends.emplace_back(sends[rank]);
      exchange.receives.emplace_back(receives[rank]);
    }
    own.begin(std::move(exchange));
  }

  void expect_all(const base::Communicator& own) const {
    done->wait();
    for (int rank = 0; rank < own.size(); ++rank) {
      const std::vector<std::byte>& got = receives[static_cast<std::size_t>(rank)];
      for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], byte_of(rank, own.rank(), i)) << rank << " " << i;
    }
  }
};

TEST(MpiRanks, Communicate) {
  const std::optional<RankPlace> place = place_from_environment();
  if (!place) GTEST_SKIP() << "not started by mpirun";
  MpiRankOptions options;
  options.most_message_bytes = 1000;  // so that payloads are divided
  const auto ranks = make_mpi_ranks(options);
  base::Communicator& own = *ranks;
  ASSERT_EQ(own.size(), place->ranks);
  ASSERT_EQ(own.rank(), place->rank);
  for (int round = 0; round < 20; ++round) {
    const std::string text(static_cast<std::size_t>(own.rank()) * 200'000 + 1, static_cast<char>('a' + own.rank()));
    const auto all = own.gather("texts", std::as_bytes(std::span(text)));
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      ASSERT_EQ(all[rank].size(), rank * 200'000 + 1);
      ASSERT_EQ(static_cast<std::size_t>(all[rank].back()), 'a' + rank);
    }
    ASSERT_EQ(own.agree("yes", own.rank() == 0), true);
    ASSERT_EQ(own.agree("no", own.rank() != 0), false);
    own.barrier("end");
  }
  // Exchanges of different names begin in another order on each rank, and lie within one message, at its end, or in
  // many.
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{300'001}}) {
    std::vector<std::unique_ptr<Sent>> sent;
    for (int i = 0; i < 6; ++i)
      sent.push_back(std::make_unique<Sent>(own, "bucket " + std::to_string((i + own.rank()) % 6), bytes));
    for (const auto& each : sent) each->expect_all(own);
  }
}

// Whichever MPI is there: the file that the variable names is no plug-in.
TEST(MpiRanks, SayWhatToInstallWithoutThePlugin) {
  const char* const named = std::getenv("TESSERA_MPI_PLUGIN");
  const std::string before = named == nullptr ? "" : named;
  ::setenv("TESSERA_MPI_PLUGIN", "/nonexistent/libtessera_mpi.so", 1);
  const std::string message = test::error_of([] { make_mpi_ranks({}); });
  if (named == nullptr) ::unsetenv("TESSERA_MPI_PLUGIN");
  else ::setenv("TESSERA_MPI_PLUGIN", before.c_str(), 1);
  for (const char* const text : {"cannot be loaded", "/nonexistent/", "scripts/setup.sh --mpi", "--ranks N"})
    EXPECT_NE(message.find(text), std::string::npos) << message;
}

}  // namespace
}  // namespace tessera::dist::mpi_ranks_test
