// Models whose files do not say what they compute. docs/protect.md says whom that stops, and whom it only delays.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tessera/export.h"
#include "tessera/model.h"
#include "tessera/optimise.h"
#include "tessera/protect.h"

namespace tessera {

struct ObfuscateOptions {
  int degree = 2;                     // 1 to 3: from names alone to a mask for every weight
  std::optional<std::uint64_t> seed;  // equal seeds give equal files; nothing: random
  std::vector<std::string> passes;    // those that run; none: all of the degree. See obfuscation_passes()
  std::filesystem::path symbols;      // the secret file to write, which the model does not run without
};

struct ObfuscateReport {
  std::int64_t file_bytes = 0;
  std::int64_t nodes_before = 0, nodes_after = 0, symbols = 0;  // nodes: after `optimise`, and in the file
  std::int64_t permuted_channels = 0, scaled_channels = 0;
  std::int64_t masked_weights = 0, masked_bytes = 0;
  std::int64_t decoy_edges = 0, redundant_nodes = 0;
  std::vector<std::string> passes, recipients;
};

// The names of the passes, in the order in which they run.
TESSERA_API std::vector<std::string> obfuscation_passes_of(int degree);

// Writes an obfuscated package of a model that was not read from one, and its symbols, which only the owner of that
// file can read. With keys it is encrypted too (tessera/protect.h). The symbols are known to this process at once.
// Throws Error as `optimise` does, and invalid_argument for wrong options.
TESSERA_API ObfuscateReport obfuscate_model(const Model& model, const std::filesystem::path& path,
                                            const ObfuscateOptions& options, const ProtectOptions& protect = {},
                                            const OptimiseOptions& optimise = {});

// Makes the symbols of a file or licence, or of an operator library, known to this process until it ends. A library is
// code: load only what you trust. Throws Error: not_found, io, invalid_model, over_budget; unsupported for a library of
// another version of the interface (tessera/operator_library.h); invalid_argument for a licence of another machine.
TESSERA_API void use_symbols(const std::filesystem::path& path);
TESSERA_API void use_operator_library(const std::filesystem::path& path);
// The files that TESSERA_SYMBOLS and TESSERA_LIBRARY name, if they name any; several are separated by ':'.
TESSERA_API void use_symbols_of_environment();

// The identifier of this machine, of 32 hexadecimal digits: a keyed hash of /etc/machine-id. Throws Error: not_found,
// io, unsupported (that file holds no id).
TESSERA_API std::string machine_identifier();
// Writes the symbols of a file as a licence, which use_symbols takes in their place on the machine with that identifier
// alone. docs/obfuscate.md says whom that stops. Throws Error: io, invalid_argument, and as use_symbols does.
TESSERA_API void write_licence(const std::filesystem::path& symbols, const std::filesystem::path& licence,
                               const std::string& machine);

// Writes the sources of an operator library into a folder: its symbols and masks, which CMake builds against the
// installed headers. Equal seeds give equal sources. Throws Error: io, and as use_symbols does.
TESSERA_API void emit_operator_library(const std::filesystem::path& symbols, const std::filesystem::path& folder,
                                       std::optional<std::uint64_t> seed = {});

}  // namespace tessera
