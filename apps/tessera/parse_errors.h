// What the program says of a command line that it does not understand.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::apps {

// The candidate that a mistyped word most likely means, or nothing when none is near: at most a third of its letters
// differ.
std::string_view nearest(std::string_view word, std::span<const std::string> candidates);

// Throws Error(invalid_argument) when the first word of the command line is no verb.
void check_verb(const CLI::App& app, int argc, const char* const* argv);

// One sentence on an error of the parser, which names the nearest option where one is unknown.
std::string describe(const CLI::App& app, const CLI::ParseError& error);

}  // namespace tessera::apps
