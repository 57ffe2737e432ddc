// Ends an answer at a stop string, of which no part reaches the reader.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::generate {

// Holds back text that may be the beginning of a stop string until it is certain. Where a text has several,
// the one that begins first counts.
class StopStrings {
 public:
  static constexpr std::size_t kMostStrings = 64, kLongest = 4096;

  // Throws Error(invalid_argument) for an empty string, one of more than kLongest bytes, or too many.
  explicit StopStrings(std::vector<std::string> stops);

  // The text that may be shown now that `text` has come. Nothing more is returned once a stop string was found.
  std::string add(std::string_view text);
  // The text that was held back, at the end of an answer that has not found a stop string.
  std::string finish();
  bool found() const { return found_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool found_ = false;
};

}  // namespace tessera::generate
