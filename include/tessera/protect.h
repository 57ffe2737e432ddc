// Models that are encrypted at rest: files that only the holders of a key can read. docs/protect.md says whom that
// stops, and whom it does not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tessera/export.h"
#include "tessera/model.h"
#include "tessera/model_key.h"
#include "tessera/optimise.h"

namespace tessera {

// Where a key comes from: one of these. Keys never stand on a command line or in the environment themselves.
struct KeySource {
  std::string file;           // a key file: symmetric or recipient-secret; to protect also recipient
  std::string command;        // a shell command that prints a key file, such as a client of a key management service
  std::string password_file;  // a file with one line
  bool asks_for_password = false;  // on the terminal

  bool is_set() const { return !file.empty() || !command.empty() || !password_file.empty() || asks_for_password; }
};

// A key that opens protected files. It is fetched when the first protected file is opened, once. Throws
// Error(invalid_argument) unless exactly one source is set; opening throws what fetching throws.
TESSERA_API std::shared_ptr<const ModelKey> make_model_key(const KeySource& source);
// The source that TESSERA_KEY_FILE, TESSERA_KEY_COMMAND or TESSERA_PASSWORD_FILE names; not set without them. Throws
// Error(invalid_argument) if several are set.
TESSERA_API KeySource key_source_of_environment();
// Makes the key of the environment the default key, unless there is a default key already, and the symbols of the
// environment known (tessera/obfuscate.h). Throws as above, and as use_symbols_of_environment does.
TESSERA_API void use_key_of_environment();

struct ProtectOptions {
  std::vector<KeySource> keys;  // each can open the file; a key file may be a recipient's public one
  std::string publisher;        // a key file of kind publisher-secret that signs the file; "": no signature
};

struct ProtectReport {
  std::int64_t file_bytes = 0;
  std::vector<std::string> recipients;  // for people
  bool is_signed = false;
};

// Writes a protected package of a model, as `optimise` writes an unprotected one; of one that was read from a package,
// exactly that package. Throws Error as optimise does, and invalid_argument without keys, for wrong ones and for a
// model that is protected already.
TESSERA_API ProtectReport protect_model(const std::filesystem::path& model, const std::filesystem::path& path,
                                        const ProtectOptions& options, const OptimiseOptions& optimise = {});
// Protects a model that is in memory.
TESSERA_API ProtectReport protect_model(const Model& model, const std::filesystem::path& path,
                                        const ProtectOptions& options, const OptimiseOptions& optimise = {});
// Writes a protected file for other keys. `current` opens it. Nothing is encrypted again, and signatures stay.
TESSERA_API ProtectReport rewrap_model(const std::filesystem::path& file, const std::filesystem::path& path,
                                       const KeySource& current, const ProtectOptions& options);

// Writes new keys into a folder: model.key (symmetric), recipient.key and recipient.pub, publisher.key and
// publisher.pub. Existing files are never replaced. Throws Error(io).
TESSERA_API void write_new_keys(const std::filesystem::path& folder);

// Whether the file is a protected package. Throws Error: not_found, io, invalid_model.
TESSERA_API bool is_protected(const std::filesystem::path& path);
// Checks that the holder of the secret half of a publisher's key (a key file of kind publisher) signed the contents of
// a protected file, reading all of it; no key to open it is needed. Throws Error(invalid_model) where nobody did.
TESSERA_API void check_signature(const std::filesystem::path& path, const std::filesystem::path& publisher);

}  // namespace tessera
