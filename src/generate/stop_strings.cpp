#include "generate/stop_strings.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tessera::generate {

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  require(stops_.size() <= kMostStrings, ErrorKind::invalid_argument, "there are {} stop strings, expected at most {}",
          stops_.size(), kMostStrings);
  for (const std::string& stop : stops_)
    require(!stop.empty() && stop.size() <= kLongest, ErrorKind::invalid_argument,
            "a stop string has {} bytes, expected 1 to {}", stop.size(), kLongest);
}

std::string StopStrings::add(std::string_view text) {
  if (found_) return {};
  held_ += text;
  std::size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  if (first != std::string::npos) {
    found_ = true;
    std::string shown = held_.substr(0, first);
    held_.clear();
    return shown;
  }
  // The longest end of the text that begins a stop string.
  std::size_t kept = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t length = std::min(stop.size() - 1, held_.size()); length > kept; --length) {
      if (!std::string_view(held_).ends_with(std::string_view(stop).substr(0, length))) continue;
      kept = length;
      break;
    }
  }
  std::string shown = held_.substr(0, held_.size() - kept);
  held_.erase(0, shown.size());
  return shown;
}

std::string StopStrings::finish() {
  return std::exchange(held_, {});
}

}  // namespace tessera::generate
