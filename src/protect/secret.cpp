#include "protect/secret.h"

#include <sodium.h>
#include <sys/mman.h>

#include <cstring>
#include <new>

namespace tessera::protect {
namespace {

constexpr std::size_t kSecretPage = 4096, kHugePage = std::size_t{2} << 20;

void initialise() {
  static const bool ready = sodium_init() >= 0;
  if (!ready) throw std::bad_alloc();  // the system gives no random numbers
}

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + kSecretPage - 1) / kSecretPage * kSecretPage;
}

}  // namespace

Secret::Secret(std::size_t bytes) : bytes_(bytes) {
  initialise();
  data_ = static_cast<std::uint8_t*>(sodium_malloc(bytes));
  if (data_ == nullptr) throw std::bad_alloc();
}

Secret::~Secret() {
  sodium_free(data_);
}

Secret Secret::random(std::size_t bytes) {
  Secret secret(bytes);
  randombytes_buf(secret.data(), bytes);
  return secret;
}

Secret Secret::copy_of(Bytes bytes) {
  Secret secret(bytes.size());
  if (!bytes.empty()) std::memcpy(secret.data(), bytes.data(), bytes.size());
  return secret;
}

SecretMemory::SecretMemory(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* const memory =
      ::mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(memory);
  ::madvise(memory, whole_pages(bytes), MADV_DONTDUMP);
  if (bytes >= kHugePage) ::madvise(memory, whole_pages(bytes), MADV_HUGEPAGE);
  is_locked_ = ::mlock2(memory, whole_pages(bytes), MLOCK_ONFAULT) == 0;
}

void SecretMemory::wipe(std::size_t offset, std::size_t bytes) {
  sodium_memzero(data_ + offset, bytes);
}

SecretMemory::~SecretMemory() {
  if (data_ == nullptr) return;
  ::munmap(data_, whole_pages(bytes_));
}

}  // namespace tessera::protect
