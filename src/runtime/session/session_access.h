// Access to a session for callers inside Tessera, beside its public interface.
#pragma once

#include <cstdint>
#include <memory>

#include "plan/plan.h"
#include "tessera/session.h"

namespace tessera::runtime {

class SessionAccess {
 public:
  // The plan for inputs of these shapes, made now if need be. Throws Error as Session::run does before it computes.
  static std::shared_ptr<const plan::Plan> plan(Session& session, const NamedValues& inputs);
  // How many plans were made without passes, from others (plan_templates.h).
  static std::int64_t plans_from_templates(const Session& session);
};

}  // namespace tessera::runtime
