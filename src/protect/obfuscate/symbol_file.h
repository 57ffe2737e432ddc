// Tables of symbols as text: an empty graph (ir/text.h) whose metadata have the id and the salt, and in which a node
// without operands stands for each symbol, with the symbol as its name.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "ops/symbols.h"

namespace tessera::protect {

std::string symbol_text(const ops::SymbolTable& table);
// One symbol, as a line of that text.
std::string symbol_line(const ops::Symbol& symbol);
// Safe on any text. Throws Error(invalid_model).
ops::SymbolTable parse_symbols(std::string_view text);

// Throws Error: not_found, io, invalid_argument for a licence, and as parse_symbols does.
ops::SymbolTable read_symbol_file(const std::filesystem::path& path);
// Likewise, but opens a licence if it is for this machine. Throws also as read_licence does (protect/licence.h).
ops::SymbolTable read_symbols_or_licence(const std::filesystem::path& path);
// Only the owner can read the file. Throws Error(io).
void write_symbol_file(const std::filesystem::path& path, const ops::SymbolTable& table);

}  // namespace tessera::protect
