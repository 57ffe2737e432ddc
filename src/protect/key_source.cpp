// The parts that need no cryptography: the environment, and whether a file is protected.
#include <cstdlib>

#include "base/error.h"
#include "io/onnx/mapped_file.h"
#include "io/package/container.h"
#include "tessera/obfuscate.h"
#include "tessera/protect.h"

namespace tessera {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

KeySource key_source_of_environment() {
  KeySource source{variable("TESSERA_KEY_FILE"), variable("TESSERA_KEY_COMMAND"), variable("TESSERA_PASSWORD_FILE")};
  const int given = static_cast<int>(!source.file.empty()) + static_cast<int>(!source.command.empty()) +
                    static_cast<int>(!source.password_file.empty());
  require(given <= 1, ErrorKind::invalid_argument,
          "{} of TESSERA_KEY_FILE, TESSERA_KEY_COMMAND and TESSERA_PASSWORD_FILE are set, expected one at most", given);
  return source;
}

void use_key_of_environment() {
  static const bool has_symbols = (use_symbols_of_environment(), true);  // once; again if it failed
  (void)has_symbols;
  if (default_model_key() != nullptr) return;
  if (const KeySource source = key_source_of_environment(); source.is_set())
    set_default_model_key(make_model_key(source));
}

bool is_protected(const std::filesystem::path& path) {
  const std::shared_ptr<const io::MappedFile> file = io::MappedFile::map(io::InputFile::open(path));
  return io::is_container(file->bytes()) && io::Container(file->bytes(), file).is_protected();
}

}  // namespace tessera
