#include "base/environment.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "base/error.h"

namespace tessera::base {
namespace {

std::string_view variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? std::string_view() : text;
}

}  // namespace

int threads_by_environment() {
  const std::string_view text = variable("TESSERA_NUM_THREADS");
  if (text.empty()) return 0;
  int threads = -1;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), threads);
  require(code == std::errc() && end == text.data() + text.size() && threads >= 0 && threads <= kMostThreads,
          ErrorKind::invalid_argument, "TESSERA_NUM_THREADS expects a whole number from 0 (all cores) to {}, got '{}'",
          kMostThreads, text);
  return threads;
}

std::string_view isa_by_environment() {
  constexpr std::array<std::string_view, 5> known{"", "scalar", "avx2", "avx512", "amx"};
  const std::string_view text = variable("TESSERA_ISA");
  require(std::ranges::find(known, text) != known.end(), ErrorKind::invalid_argument,
          "TESSERA_ISA expects scalar, avx2, avx512 or amx, got '{}'", text);
  return text;
}

}  // namespace tessera::base
