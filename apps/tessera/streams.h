// Standard streams: makes sure that output arrives, or that the program reports the failure.
#pragma once

#include <string_view>
#include <system_error>

namespace tessera::apps {

// To be called first. Makes use of a standard stream that is closed an error; otherwise the next file that is opened
// would take its place.
void guard_standard_streams();

// Flushes standard output. Throws Error(io) if some of it could not be written. If the reader has gone (EPIPE), ends
// the process silently with the exit code 141, as the signal would.
void finish_output();

// If this error of standard output was the cause, throws or ends the process as finish_output does.
void check_output_error(const std::system_error& error);

// Prints one line on stderr: "tessera: TEXT". On a terminal the name is coloured, unless NO_COLOR is set.
void print_error(std::string_view text);
void print_warning(std::string_view text);

}  // namespace tessera::apps
