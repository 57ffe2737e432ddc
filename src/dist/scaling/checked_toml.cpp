#include "dist/scaling/checked_toml.h"

#include "base/error.h"

namespace tessera::dist {

double bounded_number(io::TomlTable& table, const std::string& place, std::string_view key, double least, double most,
                      std::optional<double> otherwise) {
  if (!table.has(key) && otherwise) return *otherwise;
  require(table.has(key), ErrorKind::invalid_argument, "{}: '{}' is missing; expected a number from {:g} to {:g}",
          place, key, least, most);
  const double value = table.number(key, 0);
  // The negation catches what is not a number as well.
  require(value >= least && value <= most, ErrorKind::invalid_argument,
          "{}: '{}' is {:g}, expected a number from {:g} to {:g}", place, key, value, least, most);
  return value;
}

std::int64_t bounded_whole(io::TomlTable& table, const std::string& place, std::string_view key, std::int64_t least,
                           std::int64_t most, std::optional<std::int64_t> otherwise) {
  if (!table.has(key) && otherwise) return *otherwise;
  require(table.has(key), ErrorKind::invalid_argument, "{}: '{}' is missing; expected a whole number from {} to {}",
          place, key, least, most);
  const std::int64_t value = table.whole(key, 0);
  require(value >= least && value <= most, ErrorKind::invalid_argument,
          "{}: '{}' is {}, expected a whole number from {} to {}", place, key, value, least, most);
  return value;
}

std::string required_text(io::TomlTable& table, const std::string& place, std::string_view key) {
  const std::string text = table.text(key, "");
  require(!text.empty(), ErrorKind::invalid_argument, "{}: '{}' is missing; expected a text", place, key);
  return text;
}

}  // namespace tessera::dist
