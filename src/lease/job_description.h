// The job that a process's runs belong to, as `tessera share run` describes it in the environment.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/gate.h"

namespace tessera::lease {

// Environment variables of an attached process.
inline constexpr const char* kSocketVariable = "TESSERA_SHARE_SOCKET";
inline constexpr const char* kClassVariable = "TESSERA_SHARE_CLASS";
inline constexpr const char* kNameVariable = "TESSERA_SHARE_NAME";
inline constexpr const char* kWeightVariable = "TESSERA_SHARE_WEIGHT";
inline constexpr const char* kGoalVariable = "TESSERA_SHARE_GOAL_MS";
inline constexpr const char* kMemoryVariable = "TESSERA_SHARE_MEMORY";  // bytes
inline constexpr const char* kHardCoresVariable = "TESSERA_SHARE_HARD_CORES";
inline constexpr const char* kTrustVariable = "TESSERA_SHARE_TRUST";  // users whose daemons are trusted, see below

struct JobDescription {
  std::string socket, name;
  Priority priority = Priority::standard;
  double weight = 1;
  std::int64_t goal_ns = 0;
  std::int64_t memory_bytes = 0;  // guarantee and limit; 0 for none
  double hard_cores = 0;          // limit on processor time per second, in cores; 0 for no limit
  std::vector<uid_t> trusted;     // users whose daemons it attaches to, beside its own user and root
};

// Throws Error(invalid_argument) for a name that is no class.
Priority parse_priority(const std::string& name);
const char* name_of(Priority priority);

// Nothing if the environment names no socket. Throws Error(invalid_argument) for a variable with an invalid value.
std::optional<JobDescription> job_by_environment();

}  // namespace tessera::lease
