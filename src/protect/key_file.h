// Keys in files: one line "tessera-key-1 KIND BASE64". Secrets pass through locked memory only.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "protect/secret.h"

namespace tessera::protect {

enum class KeyKind {
  symmetric,         // 32 random bytes that wrap the keys of files
  recipient,         // X25519, the public half: files are protected for it
  recipient_secret,  // X25519, the secret half: opens them
  publisher,         // Ed25519, the public half: verifies signatures
  publisher_secret,  // Ed25519, the secret half: signs
};

inline constexpr std::size_t kKeyBytes = 32;
// The largest size of a key file and of the output of a key command.
inline constexpr std::size_t kMostKeyFileBytes = 4096;

struct Key {
  KeyKind kind = KeyKind::symmetric;
  Secret bytes;  // 32; of publisher_secret 64
};

// The name of a kind in key files and messages: "symmetric", "recipient-secret" …
std::string_view name_of(KeyKind kind);

// Parses the text of a key file; 32 bytes that are no such text are a symmetric key. `source` names it in errors.
// Throws Error(invalid_argument).
Key parse_key(Bytes text, const std::string& source);
// Throws also what reading a file throws.
Key read_key_file(const std::filesystem::path& path);
// Reads the key file that the shell command prints. Throws Error(failed) where the command fails.
Key read_key_of_command(const std::string& command);

// The first line of a file, without its end. Throws Error(invalid_argument) if it is empty.
Secret read_password_file(const std::filesystem::path& path);
// Asks on the terminal, without showing what is typed; with `twice` again, until both agree. Throws
// Error(invalid_argument) where there is no terminal or no password.
Secret ask_password(bool twice);

// Writes key files, which must not exist: model.key, recipient.key and recipient.pub, publisher.key and publisher.pub.
// Secret ones can be read by their owner alone. Throws Error(io).
void write_new_keys(const std::filesystem::path& folder);

}  // namespace tessera::protect
