#include "serve/core/requests/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "serve/protocol/failure.h"
#include "serve/protocol/request_decoder.h"

namespace tessera::serve {
namespace {

constexpr std::size_t kMostRegions = 1024;

[[noreturn]] void refuse(const std::string& message) {
  throw Failure(Reason::bad_request, message);
}

bool is_key(std::string_view key) {
  if (key.starts_with('/')) key.remove_prefix(1);
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  return !key.empty() && key.size() <= 200 && key[0] != '.' && std::ranges::all_of(key, allowed);
}

}  // namespace

struct SharedMemory::Open {
  Open(Region given, int descriptor) : region(std::move(given)), descriptor(descriptor) {}
  ~Open() { ::close(descriptor); }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;

  Region region;
  int descriptor;
};

SharedMemory::SharedMemory(std::string prefix) : prefix_(prefix.starts_with('/') ? prefix.substr(1) : prefix) {}
SharedMemory::~SharedMemory() = default;

void SharedMemory::add(const std::string& caller, const Region& region) {
  if (region.name.empty() || region.name.size() > 200)
    refuse("a shared-memory region needs a name of at most 200 bytes");
  if (!is_key(region.key))
    refuse(fmt::format("'{}' is no key of a shared-memory region, expected '/name' of letters, digits, '_', '-', '.'",
                       base::shown(region.key)));
  const std::string key = region.key.starts_with('/') ? region.key : "/" + region.key;
  if (!std::string_view(key).substr(1).starts_with(prefix_))
    throw Failure(Reason::forbidden,
                  fmt::format("keys of shared-memory regions begin with '/{}' on this server", prefix_));
  const int descriptor = ::shm_open(key.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
  if (descriptor < 0) refuse(fmt::format("the shared-memory region '{}' cannot be opened", base::shown(region.key)));
  auto open = std::make_shared<const Open>(region, descriptor);
  struct stat status{};
  const bool is_file = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  if (!is_file || region.offset < 0 || region.byte_size < 1 || region.byte_size > status.st_size ||
      region.offset > status.st_size - region.byte_size)
    refuse(fmt::format("the shared-memory region '{}' has no {} bytes at {}", base::shown(region.key), region.byte_size,
                       region.offset));
  const std::lock_guard lock(mutex_);
  Regions& own = regions_[caller];
  if (own.contains(region.name)) refuse(fmt::format("the region '{}' is registered already", base::shown(region.name)));
  if (own.size() >= kMostRegions) throw Failure(Reason::unavailable, "too many shared-memory regions", 1);
  own.emplace(region.name, std::move(open));
}

void SharedMemory::remove(const std::string& caller, const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto own = regions_.find(caller);
  if (own != regions_.end()) own->second.erase(name);
}

void SharedMemory::remove_all(const std::string& caller) {
  const std::lock_guard lock(mutex_);
  regions_.erase(caller);
}

std::vector<Region> SharedMemory::list(const std::string& caller) const {
  const std::lock_guard lock(mutex_);
  std::vector<Region> regions;
  const auto own = regions_.find(caller);
  if (own == regions_.end()) return regions;
  for (const auto& [name, open] : own->second) regions.push_back(open->region);
  return regions;
}

// Null where the caller has no such region.
std::shared_ptr<const SharedMemory::Open> SharedMemory::registered(const std::string& caller,
                                                                   const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto own = regions_.find(caller);
  if (own == regions_.end()) return nullptr;
  const auto found = own->second.find(name);
  return found != own->second.end() ? found->second : nullptr;
}

Region SharedMemory::find(const std::string& caller, const std::string& name) const {
  const auto found = registered(caller, name);
  if (!found)
    throw Failure(Reason::not_found, fmt::format("no shared-memory region '{}' is registered", base::shown(name)));
  return found->region;
}

// The region of a part, which lies within it; `begin` is where in the object.
std::shared_ptr<const SharedMemory::Open> SharedMemory::part(const std::string& caller, const RegionPart& wanted,
                                                             std::int64_t& begin) const {
  std::shared_ptr<const Open> open = registered(caller, wanted.region);
  if (!open) refuse(fmt::format("no shared-memory region '{}' is registered", base::shown(wanted.region)));
  const Region& region = open->region;
  if (wanted.offset < 0 || wanted.byte_size < 0 || wanted.byte_size > region.byte_size ||
      wanted.offset > region.byte_size - wanted.byte_size)
    refuse(fmt::format("{} bytes at {} are not within the shared-memory region '{}' of {} bytes", wanted.byte_size,
                       wanted.offset, base::shown(wanted.region), region.byte_size));
  begin = region.offset + wanted.offset;
  return open;
}

void SharedMemory::read_inputs(const std::string& caller, InferenceRequest& request) const {
  for (InferenceInput& input : request.inputs) {
    if (!input.region) continue;
    std::int64_t begin = 0;
    const std::shared_ptr<const Open> open = part(caller, *input.region, begin);
    std::string bytes(static_cast<std::size_t>(input.region->byte_size), '\0');
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t count =
          ::pread(open->descriptor, bytes.data() + done, bytes.size() - done, begin + static_cast<off_t>(done));
      if (count <= 0)
        refuse(fmt::format("the shared-memory region '{}' has been cut off", base::shown(input.region->region)));
      done += static_cast<std::size_t>(count);
    }
    input.tensor = decode_elements(input.name, input.dtype, input.shape, bytes);
  }
}

void SharedMemory::write_outputs(const std::string& caller, InferenceRequest& request,
                                 const InferenceResponse& response) const {
  for (RequestedOutput& output : request.outputs) {
    if (!output.region) continue;
    const auto made = std::ranges::find(response.outputs, output.name, &OutputTensor::name);
    if (made == response.outputs.end()) continue;
    std::string bytes;
    append_elements(made->tensor, bytes);
    std::int64_t begin = 0;
    const std::shared_ptr<const Open> open = part(caller, *output.region, begin);
    if (static_cast<std::int64_t>(bytes.size()) > output.region->byte_size)
      refuse(fmt::format("output '{}' has {} bytes, and its part of the region '{}' {}", base::shown(output.name),
                         bytes.size(), base::shown(output.region->region), output.region->byte_size));
    // Writing behind the end would make the object larger, which is the client's to do.
    struct stat status{};
    if (::fstat(open->descriptor, &status) != 0 || begin + output.region->byte_size > status.st_size)
      refuse(fmt::format("the shared-memory region '{}' has been cut off", base::shown(output.region->region)));
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t count =
          ::pwrite(open->descriptor, bytes.data() + done, bytes.size() - done, begin + static_cast<off_t>(done));
      if (count <= 0)
        refuse(fmt::format("the shared-memory region '{}' cannot be written", base::shown(output.region->region)));
      done += static_cast<std::size_t>(count);
    }
    output.region->byte_size = static_cast<std::int64_t>(bytes.size());
  }
}

}  // namespace tessera::serve
