#include "serve/observe/request_id.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <random>

namespace tessera::serve {
namespace {

constexpr std::size_t kMostBytes = 128;

bool is_well_formed(std::string_view text) {
  constexpr std::string_view kOthers = "-_.:/+=@";
  return !text.empty() && text.size() <= kMostBytes && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kOthers.find(c) != std::string_view::npos;
  });
}

// SplitMix64 (Steele, Lea, Flood 2014): different numbers get different results, which look random.
std::uint64_t mixed(std::uint64_t number) {
  number += 0x9e3779b97f4a7c15;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

std::uint64_t random_start() {
  std::random_device device;
  return static_cast<std::uint64_t>(device()) << 32 | device();
}

}  // namespace

std::string request_id(std::string_view given) {
  if (is_well_formed(given)) return std::string(given);
  static std::atomic<std::uint64_t> next{random_start()};
  return fmt::format("{:016x}", mixed(next++));
}

}  // namespace tessera::serve
