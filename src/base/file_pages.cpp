#include "base/file_pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <map>
#include <mutex>

namespace tessera::base {
namespace {

constexpr std::uintptr_t kPage = 4096;

struct Mappings {
  std::mutex mutex;
  std::map<std::uintptr_t, std::uintptr_t> ends;  // by begin
};

// Never destroyed: mappings may end while static objects die.
Mappings& mappings() {
  static Mappings& all = *new Mappings;
  return all;
}

// The end of the mapping that the address lies in, or 0 if it lies in none. Called with the mutex held.
std::uintptr_t end_of_mapping(std::uintptr_t address) {
  auto found = mappings().ends.upper_bound(address);
  if (found == mappings().ends.begin()) return 0;
  --found;
  return address < found->second ? found->second : 0;
}

}  // namespace

void add_file_mapping(const void* begin, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  std::lock_guard lock(mappings().mutex);
  mappings().ends[address] = address + bytes;
}

void remove_file_mapping(const void* begin) {
  std::lock_guard lock(mappings().mutex);
  mappings().ends.erase(reinterpret_cast<std::uintptr_t>(begin));
}

bool lies_in_file(const void* data) {
  std::lock_guard lock(mappings().mutex);
  return end_of_mapping(reinterpret_cast<std::uintptr_t>(data)) != 0;
}

void release_file_pages(const void* data, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t begin = (address + kPage - 1) / kPage * kPage, end = (address + bytes) / kPage * kPage;
  if (begin >= end) return;
  // The lock is held meanwhile, so that no other memory can take the mapping's place.
  std::lock_guard lock(mappings().mutex);
  if (address + bytes <= end_of_mapping(address)) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace tessera::base
