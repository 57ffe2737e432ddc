// Formats quantities for people.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::base {

std::string format_bytes(std::int64_t bytes);     // "512 B", "1.5 KiB", "97.8 MiB"
std::string format_count(double count);           // "950", "25.6 M", "4.1 G"
std::string format_duration_ns(std::int64_t ns);  // "850 ns", "12.3 us", "4.56 ms", "1.20 s"

}  // namespace tessera::base
