// Numbers of configuration files within bounds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/toml_table.h"

namespace tessera::dist {

// A finite number from `least` to `most`; the key must be there unless there is an `otherwise`, which is returned
// unchecked. `place` names the table in messages. Throws Error(invalid_argument).
double bounded_number(io::TomlTable& table, const std::string& place, std::string_view key, double least, double most,
                      std::optional<double> otherwise = std::nullopt);
std::int64_t bounded_whole(io::TomlTable& table, const std::string& place, std::string_view key, std::int64_t least,
                           std::int64_t most, std::optional<std::int64_t> otherwise = std::nullopt);
// A text that is there and not empty. Throws Error(invalid_argument).
std::string required_text(io::TomlTable& table, const std::string& place, std::string_view key);

}  // namespace tessera::dist
