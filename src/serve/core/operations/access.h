// Who may do what: keys with roles and models, and how often.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "serve/limits/allowances.h"

namespace tessera::serve {

enum class Role : std::uint8_t { read, infer, manage };  // metadata and statistics; inference; loading and unloading

struct AccessKey {
  std::string name;          // for the audit log
  std::string token_sha256;  // of the bearer token, "" without one
  std::string certificate;   // the common name of a client's certificate, "" without one
  std::vector<Role> roles;
  std::vector<std::string> models;  // empty: all; "prefix*" is possible
  AllowanceRule rule;
};

// Thread-safe.
class Access {
 public:
  // Without keys everybody may do everything.
  explicit Access(std::vector<AccessKey> keys);
  ~Access();

  bool is_open() const { return states_.empty(); }
  // The name of the caller, by the Authorization header ("Bearer TOKEN") or the common name of a certificate that was
  // verified. Throws Failure(unauthenticated).
  std::string identify(const std::string& authorization, const std::string& certificate) const;
  // Throws Failure(forbidden) where the caller has not the role for the model ("": the server as a whole).
  void check(const std::string& caller, Role role, const std::string& model) const;
  // Counts an inference, which is in progress until the ticket goes. Throws Failure(rate_limited) for one beyond the
  // key's rule.
  Allowances::Ticket begin(const std::string& caller);
  // Throws what begin() would throw, and counts nothing.
  void check_allowance(const std::string& caller);
  // Requests that were refused, by key.
  std::map<std::string, std::uint64_t> limited() const { return allowances_.refused(true); }

 private:
  struct State;
  State& find(const std::string& caller) const;
  std::vector<std::unique_ptr<State>> states_;
  Allowances allowances_;
};

std::string_view name_of(Role role);
// Throws Error(invalid_argument).
Role parse_role(const std::string& name);

}  // namespace tessera::serve
