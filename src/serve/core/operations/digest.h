// SHA-256 (FIPS 180-4), by OpenSSL.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tessera::serve {

// 64 hexadecimal digits, lower case.
std::string sha256(std::string_view bytes);

// HMAC-SHA-256 (FIPS 198-1) of the bytes under the key: 64 hexadecimal digits. Throws std::bad_alloc.
std::string hmac_sha256(std::string_view key, std::string_view bytes);

// The SHA-256 digest of bytes that come in parts. Throws std::bad_alloc.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(std::string_view bytes);
  // Eight bytes.
  void add_number(std::int64_t number);
  // The digest's 32 bytes. Called once, at the end.
  std::string finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// Whether two texts are equal, in a time that depends on their lengths alone.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace tessera::serve
