// Standard streams: what is printed arrives, or the program says that it did not.
#pragma once

#include <string_view>
#include <system_error>

namespace tessera::apps {

// Call it first: a standard stream that is closed refuses what is written to it, instead of being the next file that is
// opened.
void guard_standard_streams();

// Writes what was printed so far. Throws Error(io) when some of it could not be written. A reader that has gone (EPIPE)
// ends the process quietly with 141, as the signal would.
void finish_output();

// Throws or ends as finish_output does if this is why standard output failed.
void check_output_error(const std::system_error& error);

// One line on standard error: "tessera: TEXT", the name in colour on a terminal, unless NO_COLOR is set.
void print_error(std::string_view text);
void print_warning(std::string_view text);

}  // namespace tessera::apps
