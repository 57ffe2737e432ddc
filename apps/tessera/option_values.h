// Validators of option values, with messages of one form: "--threads expects a whole number from 0 to 1024, got '-1'".
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera::apps {

CLI::Validator whole_number(std::uint64_t least, std::uint64_t most);
// A finite number.
CLI::Validator number(double least, double most);
// A time of at most 1e9 s with its unit (10, 0.5s, 250ms, 2m, 1h); the value is converted to seconds.
CLI::Validator duration();

// Sets the values that shells offer for an option, which also accepts others. Returns the option.
CLI::Option* suggest(CLI::Option* option, std::vector<std::string> values);
// The values set by suggest(), or the members of the set that the option accepts; empty for file names and any text.
std::vector<std::string> suggested_values(const CLI::Option& option);

}  // namespace tessera::apps
