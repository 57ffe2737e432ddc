// Packed weights shared by the sessions of a process: many sessions of one model keep one copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace tessera::runtime {

// Finds packings of equal contents. Sessions fold and pack the constants of their model on their own, so the same
// weights have other addresses in each; what they pack has the same bytes. A packing is compared only with those of the
// same name and size, so that nothing is read for the first session of a model. Thread-safe.
class EqualPackings {
 public:
  EqualPackings();
  // Those of all sessions of this process.
  static EqualPackings& process();

  // `name`: of the packing, with the shape of its weights. Returns the bytes of an equal packing that is in use
  // elsewhere, or else `packed`, which later calls may return; nobody writes to it from here on. Packings of less than
  // kLeastBytes are returned as they are.
  std::shared_ptr<const std::byte[]> share(const std::string& name, std::int64_t bytes,
                                           std::shared_ptr<const std::byte[]> packed);
  // Packings in use that others may share.
  std::size_t size() const;

  // Below, what sharing saves is less than what it could cost: a small packing keeps the slab alive that it lies in.
  static constexpr std::int64_t kLeastBytes = 4096;

 private:
  struct State;
  std::shared_ptr<State> state_;  // packings may outlive this object
};

}  // namespace tessera::runtime
