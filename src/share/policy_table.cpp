#include <array>

#include "base/error.h"
#include "share/policy.h"

namespace tessera {
namespace share {
namespace {

constexpr std::array<PolicyEntry, 6> kPolicies{{
    {"fifo", "whole runs in order of arrival", make_fifo},
    {"fair", "steps by weighted shares of measured device time", make_fair},
    {"iteration", "whole runs in lanes whose memory fits together", make_iteration},
    {"headroom", "other work goes first as long as predicted goals are kept", make_headroom},
    {"fill", "background work fills gaps, held back by measured latency", make_fill},
    {"predictive", "two runs at once where predicted interference keeps the goals", make_predictive},
}};

}  // namespace

std::span<const PolicyEntry> all_policies() {
  return kPolicies;
}

std::unique_ptr<Policy> make_policy(std::string_view name) {
  std::string names;
  for (const PolicyEntry& entry : kPolicies) {
    if (entry.name == name) return entry.make();
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  fail(ErrorKind::invalid_argument, "there is no policy '{}'; the policies are {}", name, names);
}

}  // namespace share

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const share::PolicyEntry& entry : share::all_policies()) names.emplace_back(entry.name);
  return names;
}

}  // namespace tessera
