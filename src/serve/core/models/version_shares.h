// Which version of a model answers a request that names none: a new version gets a part of the requests before it gets
// all (a canary).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "serve/protocol/inference.h"

namespace tessera::serve {

class VersionShares {
 public:
  // None: the highest version answers everything.
  VersionShares() = default;
  // Parts by version, in any unit. Throws Error(invalid_argument) for one that is negative or not finite, and where all
  // are 0.
  explicit VersionShares(std::map<std::int64_t, double> shares);

  bool is_none() const { return shares_.empty(); }
  // By version; their sum is 1.
  const std::map<std::int64_t, double>& shares() const { return shares_; }

  // Requests with equal keys get one version: by their sequence, else their routing key, else their id. When a part
  // grows, the requests that had its version keep it where the other versions' order allows. A request without a key
  // gets one by its number `count`, so that each run of requests is split as the parts say.
  std::int64_t version_for(const InferenceRequest& request, std::uint64_t count) const;

 private:
  std::map<std::int64_t, double> shares_;
};

}  // namespace tessera::serve
