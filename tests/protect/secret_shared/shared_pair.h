// Two parties in one process, and the plain computation with the bound of what fixed point may change.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "protect/secret_shared/share_file.h"
#include "tessera/secret_shared.h"

namespace tessera::test {

// HOST:PORT of this machine, where nobody listens.
inline std::string free_address() {
  const int found = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ::bind(found, reinterpret_cast<sockaddr*>(&address), size);
  ::getsockname(found, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(found);
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

// One direction between two threads.
class WordQueue {
 public:
  void put(std::span<const protect::Word> words) {
    const std::lock_guard lock(mutex_);
    messages_.emplace_back(words.begin(), words.end());
    added_.notify_one();
  }
  protect::Words take() {
    std::unique_lock lock(mutex_);
    added_.wait(lock, [&] { return !messages_.empty(); });
    protect::Words words = std::move(messages_.front());
    messages_.pop_front();
    return words;
  }

 private:
  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<protect::Words> messages_;
};

class RecordingChannel : public protect::PeerChannel {
 public:
  RecordingChannel(WordQueue& to, WordQueue& from) : to_(to), from_(from) {}
  void exchange(std::span<const protect::Word> own, std::span<protect::Word> other) override {
    to_.put(own);
    const protect::Words words = from_.take();
    ASSERT_EQ(words.size(), other.size());
    std::ranges::copy(words, other.begin());
    received.insert(received.end(), words.begin(), words.end());
  }
  protect::Words received;  // in all

 private:
  WordQueue& to_;
  WordQueue& from_;
};

struct PairResult {
  Tensor output;
  protect::Words received[2];  // by each party
};

// Computes one run of two files.
inline PairResult run_pair(const protect::ShareFile& first, const protect::ShareFile& second, const Tensor& input,
                           std::uint64_t run) {
  const TensorShares shares = share_tensor(input);
  WordQueue there, back;
  RecordingChannel channels[2] = {{there, back}, {back, there}};
  const auto compute = [&](const protect::ShareFile& file, const Tensor& share) {
    return protect::compute_shared(file.program, file.party, file.weights, share.values<protect::Word>(),
                                   file.material(run), channels[file.party]);
  };
  auto other = std::async(std::launch::async, [&] { return compute(second, shares.second); });
  const protect::Words one = compute(first, shares.first), two = other.get();
  const auto tensor = [&](const protect::Words& words) {
    return Tensor::from<protect::Word>(first.program.output_shape, std::span(words));
  };
  return {combine_shares(tensor(one), tensor(two)), {channels[0].received, channels[1].received}};
}

// The plain result in double precision, and for each element how far the result of fixed point may be from it:
// operands are rounded to half a unit, and each truncation is off by less than a unit of 2^-16.
struct BoundedResult {
  std::vector<double> values, bounds;
};

inline BoundedResult plain_result(const protect::SharedNet& net, const Tensor& input) {
  constexpr double kUnit = 0x1p-16;
  std::vector<BoundedResult> all(1);
  for (const float each : input.values<float>()) {
    all[0].values.push_back(static_cast<double>(each));
    all[0].bounds.push_back(kUnit / 2);
  }
  for (std::size_t i = 0; i < net.program.steps.size(); ++i) {
    const protect::SharedStep& step = net.program.steps[i];
    const BoundedResult& x = all[step.input];
    BoundedResult y{std::vector<double>(static_cast<std::size_t>(step.outputs())),
                    std::vector<double>(static_cast<std::size_t>(step.outputs()))};
    const auto windows =
        step.kind == protect::SharedStepKind::pool_max || step.kind == protect::SharedStepKind::pool_average
            ? protect::windows_of(step)
            : std::vector<std::vector<std::uint32_t>>();
    const auto pixels = static_cast<std::size_t>(step.y.output * step.x.output);
    const auto in_group = static_cast<std::size_t>(step.channels / step.groups);
    for (std::size_t o = 0; o < y.values.size(); ++o) {
      double value = 0, bound = 0;
      const std::size_t feature = o / pixels % static_cast<std::size_t>(step.features);
      switch (step.kind) {
        case protect::SharedStepKind::convolve: {
          value = net.weights[i].biases[feature];
          bound = kUnit;
          const std::size_t image = o / pixels / static_cast<std::size_t>(step.features);
          const auto row0 = static_cast<std::int64_t>(o % pixels) / step.x.output * step.y.stride - step.y.pad_begin;
          const auto column0 = static_cast<std::int64_t>(o % pixels) % step.x.output * step.x.stride - step.x.pad_begin;
          for (std::size_t c = 0; c < in_group; ++c) {
            for (std::int64_t tap = 0; tap < step.y.kernel * step.x.kernel; ++tap) {
              const std::int64_t row = row0 + tap / step.x.kernel * step.y.dilation,
                                 column = column0 + tap % step.x.kernel * step.x.dilation;
              if (row < 0 || row >= step.y.input || column < 0 || column >= step.x.input) continue;
              const std::size_t group = feature / static_cast<std::size_t>(step.features / step.groups);
              const std::size_t from = static_cast<std::size_t>(
                  (static_cast<std::int64_t>(image * static_cast<std::size_t>(step.channels) + group * in_group + c) *
                       step.y.input +
                   row) *
                      step.x.input +
                  column);
              const double w = net.weights[i].weights[static_cast<std::size_t>(
                  static_cast<std::int64_t>(feature * in_group + c) * step.y.kernel * step.x.kernel + tap)];
              value += w * x.values[from];
              bound += std::abs(w) * x.bounds[from] + kUnit / 2 * (std::abs(x.values[from]) + x.bounds[from]);
            }
          }
          break;
        }
        case protect::SharedStepKind::rectify:
          value = std::max(x.values[o], 0.0);
          bound = x.bounds[o];
          break;
        case protect::SharedStepKind::pool_max:
          value = -1e300;
          for (const std::uint32_t index : windows[o]) {
            value = std::max(value, x.values[index]);
            bound = std::max(bound, x.bounds[index]);
          }
          break;
        case protect::SharedStepKind::pool_average: {
          const double count = step.counts_padding ? static_cast<double>(step.y.kernel * step.x.kernel)
                                                   : static_cast<double>(windows[o].size());
          bound = kUnit;
          for (const std::uint32_t index : windows[o]) {
            value += x.values[index] / count;
            bound += x.bounds[index] / count + kUnit / 2 * (std::abs(x.values[index]) + x.bounds[index]);
          }
          break;
        }
        case protect::SharedStepKind::add:
          value = x.values[o] + all[step.second].values[o];
          bound = x.bounds[o] + all[step.second].bounds[o];
          break;
      }
      y.values[o] = value;
      y.bounds[o] = bound;
    }
    all.push_back(std::move(y));
  }
  return std::move(all[net.program.result]);
}

}  // namespace tessera::test
