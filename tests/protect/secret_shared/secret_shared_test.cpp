#include "tessera/secret_shared.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <thread>

#include "io/file.h"
#include "io/output_file.h"
#include "models/models.h"
#include "ops/core/builder.h"
#include "protect/secret_shared/peer_connection.h"
#include "protect/secret_shared/shared_pair.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/temporary_folder.h"
#include "tessera/session.h"

namespace tessera::secret_shared_test {
namespace {

using protect::SharedNet;
using protect::ShareFile;
using protect::Word;
using protect::Words;
using test::expect_error_containing;

Model net(const std::string& name, std::int64_t batch = 1) {
  return Model(std::make_shared<const ir::Graph>(models::build_model(name, {.dims = {{"batch", batch}}})));
}

struct Dealt {
  SharedNet net;
  ShareFile first, second;
};

Dealt deal(const ir::Graph& graph, std::uint64_t runs = 2) {
  SharedNet net = protect::compile_for_shares(graph);
  const protect::DealtFiles files = protect::deal_files(net, runs);
  return {std::move(net), protect::read_share_file(files.first), protect::read_share_file(files.second)};
}

// Returns the largest difference as a share of its bound.
double expect_within_bounds(const Dealt& dealt, const Tensor& input, std::uint64_t run = 0) {
  const Tensor output = test::run_pair(dealt.first, dealt.second, input, run).output;
  const test::BoundedResult expected = test::plain_result(dealt.net, input);
  double most = 0;
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    const double difference = std::abs(static_cast<double>(output.data<float>()[i]) - expected.values[i]);
    // The result as a float32 is rounded once more.
    const double bound = expected.bounds[i] + std::abs(expected.values[i]) * 0x1p-24;
    EXPECT_LE(difference, bound) << "element " << i;
    most = std::max(most, difference / bound);
  }
  return most;
}

TEST(SecretShared, ComputesLenet5WithinTheBoundOfFixedPoint) {
  const Model model = net("lenet5", 3);
  const Dealt dealt = deal(model.graph());
  for (std::uint64_t run = 0; run < 2; ++run) {
    const Tensor input = test::random_tensor(DType::f32, {3, 1, 28, 28}, 7 + run, 0, 1);
    EXPECT_GT(expect_within_bounds(dealt, input, run), 0);
    // The double-precision computation above is the model's.
    Session session(model);
    const Tensor plain = session.run({{"input", input}}).at("output").tensor();
    const test::BoundedResult expected = test::plain_result(dealt.net, input);
    for (std::size_t i = 0; i < expected.values.size(); ++i)
      EXPECT_NEAR(static_cast<double>(plain.data<float>()[i]), expected.values[i], 1e-4);
  }
}

// Comparisons have to be right for every number, near zero and far from it.
TEST(SecretShared, ComparesNumbersOfAllMagnitudes) {
  ir::Graph graph;
  std::vector<float> values{0, 1, -1, 0x1p-16f, -0x1p-16f, 1048575, -1048575, 65536, -65536, 0.5f, -0.5f};
  for (int power = -16; power < 20; ++power) {
    values.push_back(std::ldexp(1.0f, power));
    values.push_back(-std::ldexp(1.0f, power));
  }
  const auto count = static_cast<std::int64_t>(values.size());
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, Shape{count}));
  const ir::ValueId y = graph.add_op("Relu", {x});
  graph.value(y).type = graph.value(x).type;
  graph.add_output(y);
  const Dealt dealt = deal(graph, 20);
  for (std::uint64_t run = 0; run < 20; ++run) {
    const Tensor output =
        test::run_pair(dealt.first, dealt.second, Tensor::from<float>({count}, std::span<const float>(values)), run)
            .output;
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(output.data<float>()[i], std::max(values[i], 0.0f)) << values[i];
  }
}

// Padding, strides, dilations, groups, averages with and without padding, a residual sum, products with and without
// bias.
TEST(SecretShared, ComputesEveryFormOfItsOperators) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const auto weight = [&](const Shape& shape, std::uint64_t seed) {
    return graph.add_constant(test::random_tensor(DType::f32, shape, seed, -1, 1));
  };
  using Integers = std::vector<std::int64_t>;
  ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, Shape{2, 4, 9, 11}));
  x = builder.add("Conv", {x, weight({6, 2, 3, 2}, 1), weight({6}, 2)},
                  {{"group", std::int64_t{2}}, {"pads", Integers{1, 0, 2, 1}}, {"strides", Integers{1, 2}}});
  const ir::ValueId same = builder.add("Conv", {x, weight({6, 6, 3, 3}, 3)},
                                       {{"pads", Integers{2, 2, 2, 2}}, {"dilations", Integers{2, 2}}});
  x = builder.add("Relu", {builder.add("Add", {x, same})});
  x = builder.add("MaxPool", {x}, {{"kernel_shape", Integers{3, 3}}, {"pads", Integers{1, 1, 1, 1}}});
  x = builder.add("AveragePool", {x},
                  {{"kernel_shape", Integers{2, 3}},
                   {"pads", Integers{0, 1, 0, 1}},
                   {"strides", Integers{2, 2}},
                   {"count_include_pad", std::int64_t{1}}});
  x = builder.add("AveragePool", {x}, {{"kernel_shape", Integers{2, 2}}, {"pads", Integers{1, 1, 0, 0}}});
  x = builder.add("Flatten", {builder.add("GlobalAveragePool", {x})}, {{"axis", std::int64_t{1}}});
  x = builder.add("Add", {builder.add("MatMul", {x, weight({6, 7}, 4)}), weight({7}, 5)});
  x = builder.add("Gemm", {x, weight({5, 7}, 6), weight({5}, 7)},
                  {{"transB", std::int64_t{1}}, {"alpha", 0.5f}, {"beta", 2.0f}});
  graph.add_output(x);
  const Dealt dealt = deal(graph);
  const Tensor input = test::random_tensor(DType::f32, {2, 4, 9, 11}, 8, -1, 1);
  expect_within_bounds(dealt, input);
  Session session(Model(std::make_shared<const ir::Graph>(graph)));
  const Tensor plain = session.run({{"x", input}}).begin()->second.tensor();
  const test::BoundedResult expected = test::plain_result(dealt.net, input);
  for (std::size_t i = 0; i < expected.values.size(); ++i)
    EXPECT_NEAR(static_cast<double>(plain.data<float>()[i]), expected.values[i], 1e-4);
}

// How far counts of byte values and of set bits are from those of uniform words, in standard deviations.
double deviation_from_uniform(const Words& words) {
  std::array<double, 256> bytes{};
  std::array<double, 64> bits{};
  for (const Word word : words) {
    for (int i = 0; i < 8; ++i) ++bytes[word >> (8 * i) & 255];
    for (int i = 0; i < 64; ++i) bits[static_cast<std::size_t>(i)] += static_cast<double>(word >> i & 1);
  }
  const auto count = static_cast<double>(words.size());
  double chi_squared = 0, most = 0;
  for (const double seen : bytes) chi_squared += (seen - count / 32) * (seen - count / 32) / (count / 32);
  for (const double seen : bits) most = std::max(most, std::abs(seen - count / 2) / std::sqrt(count / 4));
  return std::max((chi_squared - 255) / std::sqrt(2 * 255.0), most);
}

// With 65 normal numbers in a test and 8 tests, 7 deviations are passed with a probability below 1e-8.
constexpr double kMostDeviation = 7;

TEST(SecretShared, ShowsAPartyUniformNumbers) {
  const Dealt dealt = deal(net("lenet5").graph());
  for (const float value : {0.0f, 1.0f}) {
    const Tensor input = Tensor::from<float>({1, 1, 28, 28}, std::span<const float>(std::vector<float>(784, value)));
    const test::PairResult result = test::run_pair(dealt.first, dealt.second, input, value == 0.0f ? 0 : 1);
    for (const Words& received : result.received) {
      EXPECT_GT(received.size(), 100000);
      EXPECT_LT(deviation_from_uniform(received), kMostDeviation) << "inputs of " << value;
    }
  }
  Words weights;
  for (const protect::MaskedWeights& each : dealt.first.weights)
    weights.insert(weights.end(), each.masked.begin(), each.masked.end());
  EXPECT_LT(deviation_from_uniform(weights), kMostDeviation);
  EXPECT_LT(deviation_from_uniform(dealt.second.corrections), kMostDeviation);
  // What is not masked would be seen.
  Words plain;
  for (const double each : dealt.net.weights[0].weights) plain.push_back(protect::to_fixed_point(each, 16));
  EXPECT_GT(deviation_from_uniform(plain), kMostDeviation);
}

TEST(SecretShared, SharesTensors) {
  const Tensor tensor = test::random_tensor(DType::f32, {1000}, 3, -100, 100);
  const TensorShares one = share_tensor(tensor), two = share_tensor(tensor);
  EXPECT_FALSE(identical(one.first, two.first));
  EXPECT_FALSE(identical(one.second, two.second));
  const Tensor back = combine_shares(one.first, one.second);
  for (std::int64_t i = 0; i < 1000; ++i) EXPECT_NEAR(back.data<float>()[i], tensor.data<float>()[i], 0x1p-17 + 1e-5);
  expect_error_containing(ErrorKind::invalid_argument, "element 1 is 1.00000001504",
                          [] { share_tensor(Tensor::from<float>({2}, {0, 1e30f})); });
  expect_error_containing(ErrorKind::invalid_argument, "expected magnitudes up to",
                          [] { share_tensor(Tensor::from<float>({1}, {NAN})); });
  expect_error_containing(ErrorKind::invalid_argument, "expected uint64 of one shape",
                          [&] { combine_shares(one.first, tensor); });
}

TEST(SecretShared, TellsWhatItCannotCompute) {
  const test::TemporaryFolder folder;
  const auto shares = [&](const Model& model) {
    return [=, &folder] { share_model(model, folder / "a", folder / "b", 1); };
  };
  expect_error_containing(ErrorKind::unsupported, "these nodes cannot be computed on shares",
                          shares(net("mobilenet_v2")));
}

// Two share files of a small model, for two parties in two threads.
class SharedRun : public testing::Test {
 protected:
  SharedRun() {
    share_model(net("lenet5"), a, b, 2);
    const TensorShares shares = share_tensor(test::random_tensor(DType::f32, {1, 1, 28, 28}, 1, 0, 1));
    input_a = shares.first;
    input_b = shares.second;
    peer = test::free_address();
  }

  // What both say: results, or the messages of errors.
  struct Both {
    Tensor first, second;
    std::string first_error, second_error;
  };
  Both run(const std::filesystem::path& one, const std::filesystem::path& two, double timeout_s = 20) const {
    Both both;
    const auto compute = [&](const std::filesystem::path& file, const Tensor& input, Tensor& result,
                             std::string& error) {
      try {
        result = run_secret_shared(file, peer, input, {timeout_s});
      } catch (const Error& caught) {
        error = caught.what();
      }
    };
    std::thread other([&] { compute(two, input_b, both.second, both.second_error); });
    compute(one, input_a, both.first, both.first_error);
    other.join();
    return both;
  }

  test::TemporaryFolder folder;
  const std::filesystem::path a = folder / "a.shares", b = folder / "b.shares";
  Tensor input_a, input_b;
  std::string peer;
};

TEST_F(SharedRun, GivesEachPartyAShareOfTheResult) {
  const Both first = run(a, b), second = run(a, b);
  ASSERT_EQ(first.first_error + first.second_error + second.first_error + second.second_error, "");
  const Tensor one = combine_shares(first.first, first.second), two = combine_shares(second.first, second.second);
  for (int i = 0; i < 10; ++i) EXPECT_NEAR(one.data<float>()[i], two.data<float>()[i], 0.01);
  EXPECT_FALSE(identical(first.first, second.first));
  const Both third = run(a, b, 2);
  EXPECT_THAT(third.first_error, testing::HasSubstr("the random numbers of all 2 runs are used up"));
  EXPECT_THAT(third.second_error, testing::HasSubstr("the random numbers of all 2 runs are used up"));
}

TEST_F(SharedRun, NeverUsesRandomNumbersTwice) {
  expect_error_containing(ErrorKind::failed, "no peer came", [&] { run_secret_shared(a, peer, input_a, {0.1}); });
  EXPECT_EQ(describe_shares(a).runs, 2);  // nothing was sent
  // A copy of the file from before a run goes on behind the peer's.
  std::filesystem::copy_file(a, folder / "old");
  run(a, b);
  EXPECT_EQ(describe_shares(a).runs, 1);
  EXPECT_EQ(run(folder / "old", b).first_error, "");
  EXPECT_EQ(describe_shares(folder / "old").runs, 0);
  expect_error_containing(ErrorKind::invalid_argument, "in use by another process", [&] {
    const protect::LockedShareFile locked(a);
    run_secret_shared(a, peer, input_a, {0.1});
  });
}

TEST_F(SharedRun, TellsWhenThePeerDiffers) {
  share_model(net("lenet5"), folder / "c", folder / "d", 1);
  const Both other = run(a, folder / "d", 5);
  EXPECT_THAT(other.first_error, testing::HasSubstr("the peer has a share of another model"));
  std::filesystem::copy_file(a, folder / "copy");
  // Both of them would listen; one connects by hand.
  protect::ShareFile file = protect::read_share_file(io::read_file(a, 1 << 30));
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const protect::PeerGreeting greeting{0, file.pair, file.message_key.bytes(), 0};
  std::thread same([&] {
    try {
      const protect::SecureChannel channel(protect::PeerSocket(ends[1], 5), greeting);
    } catch (const Error&) {
    }
  });
  expect_error_containing(ErrorKind::invalid_argument, "the peer has the same share",
                          [&] { protect::SecureChannel(protect::PeerSocket(ends[0], 5), greeting); });
  same.join();
}

TEST_F(SharedRun, TellsBothWhenTheyHaveTheSameFile) {
  const std::filesystem::path copy_of_a = folder / "copy_of_a", copy_of_b = folder / "copy_of_b";
  std::filesystem::copy_file(a, copy_of_a);
  const Both firsts = run(a, copy_of_a);
  EXPECT_THAT(firsts.first_error, testing::HasSubstr("the peer has the same share as this process"));
  EXPECT_THAT(firsts.second_error, testing::HasSubstr("the peer has the same share as this process"));
  EXPECT_THAT(firsts.first_error + firsts.second_error, testing::HasSubstr("another process listens at " + peer));
  EXPECT_EQ(describe_shares(a).runs, 2);
  std::filesystem::copy_file(b, copy_of_b);  // neither of two that connect can see the other one
  const Both seconds = run(b, copy_of_b, 0.2);
  for (const std::string& error : {seconds.first_error, seconds.second_error})
    EXPECT_THAT(error, testing::HasSubstr("where the process with the first of the two files has to listen"));
  const protect::LockedShareFile locked(a);
  expect_error_containing(ErrorKind::invalid_argument, "each of the two parties needs a file of its own",
                          [&] { run_secret_shared(a, peer, input_a, {0.1}); });
}

TEST_F(SharedRun, TellsWhenThePeerGoesOrLies) {
  const protect::ShareFile file = protect::read_share_file(io::read_file(a, 1 << 30));
  const auto against = [&](const auto& behave, const std::string& message) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    std::thread peer_thread([&, end = ends[1]] { behave(end); });
    expect_error_containing(ErrorKind::failed, message, [&] {
      protect::SecureChannel channel(protect::PeerSocket(ends[0], 0.5), {0, file.pair, file.message_key.bytes(), 0});
      Words words(1000);
      channel.exchange(words, words);
    });
    peer_thread.join();
  };
  against([](int end) { ::close(end); }, "the peer has gone");
  against(
      [](int end) {
        ::sleep(1);
        ::close(end);
      },
      "the peer was not heard of in 0.5 s");
  against(
      [](int end) {
        const std::vector<char> noise(200, 'x');
        EXPECT_EQ(::write(end, noise.data(), noise.size()), 200);
        ::sleep(1);
        ::close(end);
      },
      "no secret-shared run of this version");
  against(
      [&](int end) {  // knows the pair, but not its key
        try {
          protect::SecureChannel(protect::PeerSocket(end, 1), {1, file.pair, {}, 0});
        } catch (const Error&) {
        }
      },
      "does not know the key");
  against(
      [&](int end) {  // greets rightly, and then sends what it likes
        const int copy = ::dup(end);
        const protect::SecureChannel channel(protect::PeerSocket(end, 1), {1, file.pair, file.message_key.bytes(), 0});
        const std::vector<char> noise(9000, 'x');
        EXPECT_EQ(::write(copy, noise.data(), noise.size()), 9000);
        ::sleep(1);
        ::close(copy);
      },
      "message 1 of the peer is not authentic");
}

TEST_F(SharedRun, RefusesFilesThatAreChanged) {
  const std::vector<std::byte> good = io::read_file(a, 1 << 30);
  const auto read = [](std::span<const std::byte> bytes) { return [=] { protect::read_share_file(bytes); }; };
  for (const std::size_t at : {std::size_t{0}, std::size_t{12}, std::size_t{24}, std::size_t{40}, std::size_t{70},
                               std::size_t{170}, std::size_t{300}, good.size() - 1}) {
    std::vector<std::byte> bad = good;
    bad[at] ^= std::byte{1};
    EXPECT_THROW(read(bad)(), Error) << at;
  }
  for (std::size_t size = 0; size < 400; ++size) EXPECT_THROW(read(std::span(good).first(size))(), Error) << size;
  expect_error_containing(ErrorKind::invalid_model, "this is no share of a model", read(std::span(good).first(10)));
  expect_error_containing(ErrorKind::invalid_model, "was changed or cut off", read(std::span(good).first(1000)));
  expect_error_containing(ErrorKind::invalid_argument, "expected HOST:PORT",
                          [&] { run_secret_shared(a, "nowhere", input_a, {0.1}); });
  expect_error_containing(ErrorKind::invalid_argument, "expected uint64 [1, 1, 28, 28]",
                          [&] { run_secret_shared(a, peer, Tensor(DType::u64, {1}), {0.1}); });
}

}  // namespace
}  // namespace tessera::secret_shared_test
