// Regions of POSIX shared memory that clients on the same machine registered.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "serve/protocol/inference.h"

namespace tessera::serve {

struct Region {
  std::string name, key;
  std::int64_t offset = 0, byte_size = 0;
};

// Regions are read and written by descriptor and not mapped, so that a client which cuts one off gets an error and does
// not bring the server down. A region belongs to the caller who registered it, as Access names callers: others neither
// see nor use it, and may give one of their own the same name. Thread-safe.
class SharedMemory {
 public:
  // Keys of regions must begin with the prefix, whose first '/' may be left out.
  explicit SharedMemory(std::string prefix = "");
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // `region.key` is a name as of shm_open: "/name" without another slash. Throws Failure: bad_request for other names,
  // for a region that is not there or too small, and for a name that is registered; unavailable beyond 1024 regions
  // of one caller.
  void add(const std::string& caller, const Region& region);
  void remove(const std::string& caller, const std::string& name);  // does nothing for a name that is not registered
  void remove_all(const std::string& caller);
  std::vector<Region> list(const std::string& caller) const;
  // Throws Failure(not_found).
  Region find(const std::string& caller, const std::string& name) const;

  // Reads the tensors of inputs that lie in a region. Throws Failure(bad_request).
  void read_inputs(const std::string& caller, InferenceRequest& request) const;
  // Writes the outputs for which the request names a region; their parts' byte_size becomes what was written. Throws
  // Failure(bad_request) where an output is larger than its part.
  void write_outputs(const std::string& caller, InferenceRequest& request, const InferenceResponse& response) const;

 private:
  struct Open;
  using Regions = std::map<std::string, std::shared_ptr<const Open>>;
  std::shared_ptr<const Open> part(const std::string& caller, const RegionPart& wanted, std::int64_t& begin) const;
  std::shared_ptr<const Open> registered(const std::string& caller, const std::string& name) const;

  const std::string prefix_;
  mutable std::mutex mutex_;
  std::map<std::string, Regions> regions_;  // by caller
};

}  // namespace tessera::serve
