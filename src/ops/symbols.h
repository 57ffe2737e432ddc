// Symbols: names without a meaning that stand for operators in obfuscated graphs (docs/protect.md).
//
// A node whose operator is a symbol is a node of the operator that the symbol stands for (op_of), with the attributes
// that the symbol holds beside those that the node states (AttributeReader). The graph never says either. Tables of
// symbols are secrets that come from a file or an operator library and serve the whole process until it ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/core/op.h"

namespace tessera::ops {

// Computes words [first, first + words) of a weight from those of its masked form, both of which begin at `first`. A
// word is 4 bytes. `mask` is the number of the weight in its library.
using UnmaskFunction = void (*)(std::uint32_t mask, const void* masked, void* plain, std::uint64_t first,
                                std::uint64_t words);

struct Symbol {
  std::string name;  // as ir::Node::op; begins with kSymbolPrefix
  std::string op;    // the operator that it stands for
  ir::Attributes attributes;
};

struct SymbolTable {
  std::string id;          // which models need the table; for people too: 32 hexadecimal digits
  std::uint64_t salt = 0;  // what the names of packed weights in the file are hashed with
  std::vector<Symbol> symbols;
  UnmaskFunction unmask = nullptr;  // of a library; null: the key of a mask is an attribute of its symbol
};

inline constexpr std::string_view kSymbolPrefix = "tessera::_";
inline bool is_symbol(std::string_view op) {
  return op.starts_with(kSymbolPrefix);
}

// Makes the symbols known to the process. A table with an id that is known already is ignored. Thread-safe. Throws
// Error: invalid_model for unknown operators and names that are no symbols or are taken; over_budget.
void add_symbols(SymbolTable table);
// The salt of the table with that id; nothing if there is none.
std::optional<std::uint64_t> find_salt(std::string_view id);
// The ids of the tables that are known, in alphabetical order.
std::vector<std::string> known_symbol_tables();

// The operator that a symbol stands for; null when it is unknown.
const OpDef* find_symbol(std::string_view symbol);
// The attributes that the node's operator holds if it is a symbol; else none.
const ir::Attributes& attributes_of_symbol(const ir::Node& node);
// Whether the node or its symbol states the attribute.
bool states_attribute(const ir::Node& node, std::string_view name);
// The function of the library that the symbol comes from; null without one.
UnmaskFunction find_unmask(std::string_view symbol);

}  // namespace tessera::ops
