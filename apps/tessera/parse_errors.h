// Messages for command lines that cannot be parsed.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::apps {

// The candidate that a mistyped word most likely means, or "" if none is near: at most a third of its letters may
// differ.
std::string_view nearest(std::string_view word, std::span<const std::string> candidates);

// Throws Error(invalid_argument) if the first word of the command line is no verb.
void check_verb(const CLI::App& app, int argc, const char* const* argv);

// A sentence that describes an error of the parser; for an unknown option it names the nearest one.
std::string describe(const CLI::App& app, const CLI::ParseError& error);

}  // namespace tessera::apps
