#include "serve/core/operations/access.h"

#include <algorithm>

#include "base/error.h"
#include "serve/core/operations/digest.h"
#include "serve/protocol/failure.h"

namespace tessera::serve {
namespace {

// The token of "Bearer TOKEN", "" for another scheme. The scheme's case does not matter (RFC 9110, 11.1).
std::string_view bearer_token(std::string_view authorization) {
  constexpr std::string_view kBearer = "bearer ";
  const auto is_equal = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + ('a' - 'A') : a) == b; };
  if (authorization.size() < kBearer.size() ||
      !std::ranges::equal(authorization.substr(0, kBearer.size()), kBearer, is_equal))
    return {};
  authorization.remove_prefix(kBearer.size());
  authorization.remove_prefix(std::min(authorization.find_first_not_of(' '), authorization.size()));
  return authorization;
}

bool covers(const AccessKey& key, const std::string& model) {
  if (key.models.empty() || model.empty()) return true;
  return std::ranges::any_of(key.models, [&](const std::string& pattern) {
    if (!pattern.ends_with('*')) return pattern == model;
    return model.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1));
  });
}

}  // namespace

struct Access::State {
  AccessKey key;
};

Access::Access(std::vector<AccessKey> keys) {
  for (AccessKey& key : keys) {
    auto state = std::make_unique<State>();
    state->key = std::move(key);
    states_.push_back(std::move(state));
  }
}
Access::~Access() = default;

std::string Access::identify(const std::string& authorization, const std::string& certificate) const {
  if (is_open()) return "anyone";
  const std::string_view sent = bearer_token(authorization);
  const std::string digest = sent.empty() ? "" : sha256(sent);
  const State* found = nullptr;
  for (const auto& state : states_) {
    const AccessKey& key = state->key;
    const bool token = !digest.empty() && !key.token_sha256.empty() && equal_in_constant_time(digest, key.token_sha256);
    const bool holder = !certificate.empty() && key.certificate == certificate;
    if ((token || holder) && found == nullptr) found = state.get();
  }
  if (found == nullptr)
    throw Failure(Reason::unauthenticated, authorization.empty() && certificate.empty()
                                               ? "a bearer token is needed: send the header 'Authorization: Bearer …'"
                                               : "nobody has this token or certificate");
  return found->key.name;
}

Access::State& Access::find(const std::string& caller) const {
  const auto found = std::ranges::find_if(states_, [&](const auto& state) { return state->key.name == caller; });
  if (found == states_.end()) throw Failure(Reason::unauthenticated, "nobody has this token or certificate");
  return **found;
}

void Access::check(const std::string& caller, Role role, const std::string& model) const {
  if (is_open()) return;
  const AccessKey& key = find(caller).key;
  if (std::ranges::find(key.roles, role) == key.roles.end())
    throw Failure(Reason::forbidden, fmt::format("key '{}' has not the role '{}'", caller, name_of(role)));
  if (!covers(key, model)) throw Failure(Reason::forbidden, fmt::format("key '{}' may not use this model", caller));
}

Allowances::Ticket Access::begin(const std::string& caller) {
  return is_open() ? nullptr : allowances_.begin(caller, find(caller).key.rule, fmt::format("key '{}'", caller));
}

void Access::check_allowance(const std::string& caller) {
  if (!is_open()) allowances_.check(caller, find(caller).key.rule, fmt::format("key '{}'", caller));
}

std::string_view name_of(Role role) {
  switch (role) {
    case Role::read:
      return "read";
    case Role::infer:
      return "infer";
    case Role::manage:
      return "manage";
  }
  return "";
}

Role parse_role(const std::string& name) {
  for (const Role role : {Role::read, Role::infer, Role::manage}) {
    if (name == name_of(role)) return role;
  }
  fail(ErrorKind::invalid_argument, "'{}' is no role, expected read, infer or manage", name);
}

}  // namespace tessera::serve
