// The values of a model's settings, within their bounds. Functions throw Error(invalid_argument) that names the key and
// the file (`where`).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/gate.h"

namespace tessera::serve {

inline constexpr int kMostBatch = 4096, kMostInstances = 64;
inline constexpr double kMostDelayUs = 1e7, kMostIdleUs = 86'400e6;

Priority priority_of(const std::string& name, const std::string& where);
// The number if it is within 0 and `most`, so that it can be converted to units and to whole numbers.
double setting_within(double number, double most, std::string_view key, const std::string& where);
double number_of(const std::string& text, const std::string& key, const std::string& where);
std::int64_t version_of(const std::string& text, const std::string& where);
std::int64_t goal_ns_of(double goal_ms, const std::string& where);
std::int64_t memory_bytes_of(double mib, const std::string& where);
int threads_of(double threads, const std::string& where);

}  // namespace tessera::serve
