// What callers inside Tessera may ask a session for beside its public face.
#pragma once

#include <memory>

#include "plan/plan.h"
#include "tessera/session.h"

namespace tessera::runtime {

class SessionAccess {
 public:
  // The plan for inputs of these shapes, made now if need be. Throws Error as Session::run does before it computes.
  static std::shared_ptr<const plan::Plan> plan(Session& session, const NamedValues& inputs);
};

}  // namespace tessera::runtime
