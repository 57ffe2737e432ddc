#include "protect/licence.h"

#include <sodium.h>

#include <array>
#include <cstring>

#include "base/error.h"
#include "io/file.h"
#include "io/output_file.h"
#include "io/package/byte_stream.h"
#include "protect/obfuscate/symbol_file.h"
#include "protect/secret.h"
#include "tessera/obfuscate.h"

namespace tessera {
namespace protect {
namespace {

constexpr std::uint32_t kLicenceVersion = 1;
constexpr std::size_t kIdentifier = 16, kLicenceSalt = 32, kCheck = 16,
                      kLicenceNonce = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES,
                      kLicenceTag = crypto_aead_xchacha20poly1305_ietf_ABYTES;
constexpr std::size_t kSaltAt = 12, kCheckAt = kSaltAt + kLicenceSalt, kNonceAt = kCheckAt + kCheck,
                      kSymbolsAt = kNonceAt + kLicenceNonce;
static_assert(kIdentifier >= crypto_generichash_KEYBYTES_MIN && kCheck >= crypto_generichash_BYTES_MIN);

const std::uint8_t* octets(std::span<const std::byte> bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

Secret from_hexadecimal(std::string_view text, std::size_t bytes) {
  Secret decoded(bytes);
  std::size_t length = 0;
  const char* end = nullptr;
  const bool is_valid =
      sodium_hex2bin(decoded.data(), decoded.size(), text.data(), text.size(), nullptr, &length, &end) == 0 &&
      length == bytes && end == text.data() + text.size();
  return is_valid ? std::move(decoded) : Secret();
}

Secret identifier_bytes(const std::string& machine) {
  Secret identifier = from_hexadecimal(machine, kIdentifier);
  require(identifier.size() == kIdentifier, ErrorKind::invalid_argument,
          "'{}' is no identifier of a machine; expected 32 hexadecimal digits, which 'tessera protect --machine-id' "
          "prints on that machine, or 'this'",
          machine);
  return identifier;
}

Secret derive_of_machine(const Secret& identifier, std::string_view purpose, std::span<const std::byte> salt,
                         std::size_t bytes) {
  std::vector<std::uint8_t> message(purpose.begin(), purpose.end());
  message.insert(message.end(), octets(salt), octets(salt) + salt.size());
  Secret derived(bytes);
  crypto_generichash(derived.data(), derived.size(), message.data(), message.size(), identifier.data(),
                     identifier.size());
  return derived;
}

Secret licence_key(const Secret& identifier, std::span<const std::byte> salt) {
  return derive_of_machine(identifier, "tessera licence key", salt, crypto_aead_xchacha20poly1305_ietf_KEYBYTES);
}

Secret check_value(const Secret& identifier, std::span<const std::byte> salt) {
  return derive_of_machine(identifier, "tessera licence machine", salt, kCheck);
}

}  // namespace

std::string machine_identifier_of(const std::filesystem::path& machine_id) {
  constexpr std::size_t kDigits = 32;
  constexpr std::string_view kPurpose = "tessera machine identifier";
  const std::vector<std::byte> file = io::read_file(machine_id, 4096);
  std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  while (text.ends_with('\n')) text.remove_suffix(1);
  const Secret id = text.size() == kDigits ? from_hexadecimal(text, kDigits / 2) : Secret();
  require(id.size() > 0 && !sodium_is_zero(id.data(), id.size()), ErrorKind::unsupported,
          "'{}' holds no machine id of 32 hexadecimal digits; 'systemd-machine-id-setup' makes one",
          machine_id.string());
  std::array<std::uint8_t, kIdentifier> identifier{};
  crypto_generichash(identifier.data(), identifier.size(), id.data(), id.size(),
                     reinterpret_cast<const std::uint8_t*>(kPurpose.data()), kPurpose.size());
  std::array<char, 2 * kIdentifier + 1> digits{};
  return sodium_bin2hex(digits.data(), digits.size(), identifier.data(), identifier.size());
}

std::vector<std::byte> write_licence(const ops::SymbolTable& symbols, const std::string& machine) {
  const Secret identifier = identifier_bytes(machine);
  const std::string text = symbol_text(symbols);
  std::vector<std::byte> licence(kSymbolsAt + text.size() + kLicenceTag);
  std::ranges::copy(std::as_bytes(std::span(kLicenceMagic)), licence.begin());
  std::memcpy(licence.data() + kLicenceMagic.size(), &kLicenceVersion, sizeof(kLicenceVersion));
  const std::span<std::byte> salt = std::span(licence).subspan(kSaltAt, kLicenceSalt);
  randombytes_buf(salt.data(), salt.size());
  std::ranges::copy(std::as_bytes(std::span(check_value(identifier, salt).bytes())), licence.begin() + kCheckAt);
  randombytes_buf(licence.data() + kNonceAt, kLicenceNonce);
  auto* const to = reinterpret_cast<std::uint8_t*>(licence.data());
  crypto_aead_xchacha20poly1305_ietf_encrypt(to + kSymbolsAt, nullptr,
                                             reinterpret_cast<const std::uint8_t*>(text.data()), text.size(), to,
                                             kSymbolsAt, nullptr, to + kNonceAt, licence_key(identifier, salt).data());
  return licence;
}

ops::SymbolTable read_licence(std::span<const std::byte> licence, const std::string& machine) {
  require(is_licence(licence) && licence.size() >= kSymbolsAt + kLicenceTag, ErrorKind::invalid_model,
          "the licence was cut off");
  io::ByteReader in(licence.subspan(kLicenceMagic.size()));
  const std::uint32_t version = in.u32();
  require(version == kLicenceVersion, ErrorKind::unsupported, "a licence of version {}, expected {}", version,
          kLicenceVersion);
  const Secret identifier = identifier_bytes(machine);
  const std::span<const std::byte> salt = in.bytes(kLicenceSalt);
  const Secret expected = check_value(identifier, salt);
  require(sodium_memcmp(expected.data(), in.bytes(kCheck).data(), kCheck) == 0, ErrorKind::invalid_argument,
          "the licence is for another machine; this one is {}, for which who sent the licence can write another",
          machine);
  SecretMemory text(licence.size() - kSymbolsAt - kLicenceTag);
  auto* const plain = reinterpret_cast<std::uint8_t*>(text.data());
  const bool is_authentic =
      crypto_aead_xchacha20poly1305_ietf_decrypt(plain, nullptr, nullptr, octets(licence) + kSymbolsAt,
                                                 licence.size() - kSymbolsAt, octets(licence), kSymbolsAt,
                                                 octets(licence) + kNonceAt, licence_key(identifier, salt).data()) == 0;
  require(is_authentic, ErrorKind::invalid_model, "the licence was changed or cut off; get it again");
  return parse_symbols({reinterpret_cast<const char*>(plain), text.size()});
}

}  // namespace protect

std::string machine_identifier() {
  return protect::machine_identifier_of("/etc/machine-id");
}

void write_licence(const std::filesystem::path& symbols, const std::filesystem::path& licence,
                   const std::string& machine) {
  io::check_output(licence);
  const std::vector<std::byte> bytes = protect::write_licence(protect::read_symbol_file(symbols), machine);
  io::OutputFile file(licence);
  file.write(bytes);
  file.commit();
}

}  // namespace tessera
