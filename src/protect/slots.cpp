// The contents of slots: of a symmetric key its identity (16), nonce (24) and wrapped key (48); of a recipient its
// public key (32) and a sealed box of the file key and its identity (96); of a password salt (16), the work of Argon2id
// in passes (4) and KiB (4), nonce and wrapped key.
#include "protect/slots.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/error.h"

namespace tessera::protect {
namespace {

constexpr std::size_t kNonce = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
constexpr std::size_t kWrapped = kFileKeyBytes + crypto_aead_xchacha20poly1305_ietf_ABYTES;
constexpr std::size_t kIdentity = 16;
constexpr std::size_t kSalt = crypto_pwhash_SALTBYTES;
constexpr std::size_t kSealed = kFileKeyBytes + sizeof(KeyId) + crypto_box_SEALBYTES;
constexpr std::size_t kPublic = crypto_box_PUBLICKEYBYTES;
// Argon2id with the "moderate" work of libsodium. A file may ask for four times as much memory at most.
constexpr std::uint32_t kPasses = crypto_pwhash_OPSLIMIT_MODERATE, kKib = crypto_pwhash_MEMLIMIT_MODERATE / 1024;
constexpr std::uint32_t kMostPasses = 16, kMostKib = std::uint32_t{1} << 20, kLeastKib = 8192;

constexpr std::size_t kSymmetricSlot = kIdentity + kNonce + kWrapped, kRecipientSlot = kPublic + kSealed,
                      kPasswordSlot = kSalt + 8 + kNonce + kWrapped;

std::size_t bytes_of(std::uint32_t kind) {
  switch (kind) {
    case KeySlot::symmetric:
      return kSymmetricSlot;
    case KeySlot::recipient:
      return kRecipientSlot;
    case KeySlot::password:
      return kPasswordSlot;
    default:
      return 0;
  }
}

// Slots of kinds that are not known here are for others.
bool is(const KeySlot& slot, KeySlot::Kind kind) {
  if (slot.kind != kind) return false;
  require(slot.content.size() == bytes_of(kind), ErrorKind::invalid_model,
          "a wrapped key has {} bytes, expected {}: the file was changed", slot.content.size(), bytes_of(kind));
  return true;
}

std::array<std::uint8_t, kIdentity> identity_of(const Secret& key) {
  std::array<std::uint8_t, kIdentity> identity{};
  const std::string_view purpose = "tessera key identity";
  crypto_generichash(identity.data(), identity.size(), reinterpret_cast<const std::uint8_t*>(purpose.data()),
                     purpose.size(), key.data(), key.size());
  return identity;
}

void wrap(const Secret& file_key, const KeyId& id, const Secret& by, std::uint8_t* nonce_and_wrapped) {
  randombytes_buf(nonce_and_wrapped, kNonce);
  crypto_aead_xchacha20poly1305_ietf_encrypt(nonce_and_wrapped + kNonce, nullptr, file_key.data(), file_key.size(),
                                             id.data(), id.size(), nullptr, nonce_and_wrapped, by.data());
}

std::optional<Secret> unwrap(const std::uint8_t* nonce_and_wrapped, const KeyId& id, const Secret& by) {
  Secret file_key(kFileKeyBytes);
  const bool valid =
      crypto_aead_xchacha20poly1305_ietf_decrypt(file_key.data(), nullptr, nullptr, nonce_and_wrapped + kNonce,
                                                 kWrapped, id.data(), id.size(), nonce_and_wrapped, by.data()) == 0;
  if (!valid) return std::nullopt;
  return file_key;
}

// The key that wraps for a symmetric key, which itself encrypts nothing.
Secret wrapping_key(const Secret& key) {
  Secret wrapping(kKeyBytes);
  const std::string_view purpose = "tessera key wrap";
  crypto_generichash(wrapping.data(), wrapping.size(), reinterpret_cast<const std::uint8_t*>(purpose.data()),
                     purpose.size(), key.data(), key.size());
  return wrapping;
}

Secret stretch(const Secret& password, const std::uint8_t* salt, std::uint32_t passes, std::uint32_t kib) {
  Secret key(kKeyBytes);
  const int failed =
      crypto_pwhash(key.data(), key.size(), reinterpret_cast<const char*>(password.data()), password.size(), salt,
                    passes, std::size_t{kib} * 1024, crypto_pwhash_ALG_ARGON2ID13);
  if (failed != 0) throw std::bad_alloc();
  return key;
}

std::optional<Secret> open_box(const KeySlot& slot, const Protection& protection, const Key& key) {
  Secret opened(kFileKeyBytes + sizeof(KeyId));
  const bool valid = crypto_box_seal_open(opened.data(), slot.content.data() + kPublic, kSealed, slot.content.data(),
                                          key.bytes.data()) == 0;
  if (!valid || sodium_memcmp(opened.data() + kFileKeyBytes, protection.key_id.data(), sizeof(KeyId)) != 0)
    return std::nullopt;
  return Secret::copy_of(opened.first(kFileKeyBytes));
}

[[noreturn]] void refuse(const Protection& protection, std::string_view what) {
  std::string recipients;
  for (const KeySlot& slot : protection.slots) recipients += (recipients.empty() ? "" : ", ") + describe(slot);
  fail(ErrorKind::invalid_argument, "the file is not protected for {}; it is for {}", what, recipients);
}

[[noreturn]] void refuse_changed() {
  fail(ErrorKind::invalid_model, "the key that is wrapped in the file was changed; get the file again");
}

}  // namespace

KeySlot wrap_for_key(const Secret& file_key, const KeyId& id, const Key& key) {
  if (key.kind == KeyKind::symmetric) {
    KeySlot slot{KeySlot::symmetric, std::vector<std::uint8_t>(kSymmetricSlot)};
    std::ranges::copy(identity_of(key.bytes), slot.content.begin());
    wrap(file_key, id, wrapping_key(key.bytes), slot.content.data() + kIdentity);
    return slot;
  }
  require(key.kind == KeyKind::recipient, ErrorKind::invalid_argument,
          "a file cannot be protected for a key of kind {}, expected symmetric or recipient", name_of(key.kind));
  KeySlot slot{KeySlot::recipient, std::vector<std::uint8_t>(kRecipientSlot)};
  std::memcpy(slot.content.data(), key.bytes.data(), kPublic);
  Secret message(kFileKeyBytes + id.size());
  std::memcpy(message.data(), file_key.data(), kFileKeyBytes);
  std::memcpy(message.data() + kFileKeyBytes, id.data(), id.size());
  const int failed = crypto_box_seal(slot.content.data() + kPublic, message.data(), message.size(), key.bytes.data());
  require(failed == 0, ErrorKind::invalid_argument, "the recipient's public key is weak");
  return slot;
}

KeySlot wrap_for_password(const Secret& file_key, const KeyId& id, const Secret& password) {
  KeySlot slot{KeySlot::password, std::vector<std::uint8_t>(kPasswordSlot)};
  std::uint8_t* const at = slot.content.data();
  randombytes_buf(at, kSalt);
  std::memcpy(at + kSalt, &kPasses, 4);
  std::memcpy(at + kSalt + 4, &kKib, 4);
  wrap(file_key, id, stretch(password, at, kPasses, kKib), at + kSalt + 8);
  return slot;
}

Secret unwrap_by_key(const Protection& protection, const Key& key) {
  if (key.kind == KeyKind::symmetric) {
    const auto identity = identity_of(key.bytes);
    for (const KeySlot& slot : protection.slots) {
      if (!is(slot, KeySlot::symmetric) || !std::ranges::equal(identity, Bytes(slot.content).first(kIdentity)))
        continue;
      std::optional<Secret> found = unwrap(slot.content.data() + kIdentity, protection.key_id, wrapping_key(key.bytes));
      if (!found) refuse_changed();
      return std::move(*found);
    }
    refuse(protection, "this key");
  }
  require(key.kind == KeyKind::recipient_secret, ErrorKind::invalid_argument,
          "a key of kind {} opens no files, expected symmetric or recipient-secret", name_of(key.kind));
  std::array<std::uint8_t, kPublic> own{};
  crypto_scalarmult_base(own.data(), key.bytes.data());
  for (const KeySlot& slot : protection.slots) {
    if (!is(slot, KeySlot::recipient) || !std::ranges::equal(own, Bytes(slot.content).first(kPublic))) continue;
    std::optional<Secret> found = open_box(slot, protection, key);
    if (!found) refuse_changed();
    return std::move(*found);
  }
  refuse(protection, "this recipient");
}

Secret unwrap_by_password(const Protection& protection, const Secret& password) {
  bool has_password = false;
  for (const KeySlot& slot : protection.slots) {
    if (!is(slot, KeySlot::password)) continue;
    has_password = true;
    std::uint32_t passes = 0, kib = 0;
    std::memcpy(&passes, slot.content.data() + kSalt, 4);
    std::memcpy(&kib, slot.content.data() + kSalt + 4, 4);
    require(passes >= 1 && passes <= kMostPasses && kib >= kLeastKib && kib <= kMostKib, ErrorKind::invalid_model,
            "the password's work is {} passes over {} KiB, expected 1 to {} over {} to {}", passes, kib, kMostPasses,
            kLeastKib, kMostKib);
    const Secret by = stretch(password, slot.content.data(), passes, kib);
    if (std::optional<Secret> found = unwrap(slot.content.data() + kSalt + 8, protection.key_id, by))
      return std::move(*found);
  }
  require(has_password, ErrorKind::invalid_argument, "the file is not protected by a password, but for keys");
  refuse(protection, "this password");
}

std::string describe(const KeySlot& slot) {
  constexpr std::size_t kShown = 4;
  if (slot.kind == KeySlot::password) return "a password";
  if ((slot.kind != KeySlot::symmetric && slot.kind != KeySlot::recipient) || slot.content.size() < kShown)
    return "a key of an unknown kind";
  std::string text = slot.kind == KeySlot::symmetric ? "symmetric key " : "recipient ";
  for (std::size_t i = 0; i < kShown; ++i) text += fmt::format("{:02x}", slot.content[i]);
  return text + "…";
}

}  // namespace tessera::protect
