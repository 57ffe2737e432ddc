#include "ops/symbols.h"

#include <map>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "base/error.h"
#include "ops/op_table.h"

namespace tessera::ops {
namespace {

constexpr std::size_t kMostSymbols = std::size_t{1} << 20;

struct KnownSymbol {
  const OpDef* op;
  ir::Attributes attributes;
  UnmaskFunction unmask;
};

// Entries stay until the process ends, so that views of graphs may refer to them.
class KnownSymbols {
 public:
  static KnownSymbols& instance() {
    static KnownSymbols* const known = new KnownSymbols;  // kernels may run while the process ends
    return *known;
  }

  void add(SymbolTable table) {
    const std::unique_lock lock(mutex_);
    if (salts_.contains(table.id)) return;
    require(symbols_.size() + table.symbols.size() <= kMostSymbols, ErrorKind::over_budget,
            "{} symbols of obfuscated models, at most {} are allowed", symbols_.size() + table.symbols.size(),
            kMostSymbols);
    std::unordered_map<std::string, KnownSymbol> added;
    for (Symbol& symbol : table.symbols) {
      require(is_symbol(symbol.name), ErrorKind::invalid_model, "'{}' is not the name of a symbol", symbol.name);
      const OpDef* op = is_symbol(symbol.op) ? nullptr : find_op(symbol.op);
      require(op != nullptr, ErrorKind::invalid_model, "symbol '{}' stands for an unknown operator '{}'", symbol.name,
              symbol.op);
      const bool is_new =
          !symbols_.contains(symbol.name) &&
          added.emplace(symbol.name, KnownSymbol{op, std::move(symbol.attributes), table.unmask}).second;
      require(is_new, ErrorKind::invalid_model, "symbol '{}' is defined twice", symbol.name);
    }
    symbols_.merge(added);
    salts_.emplace(std::move(table.id), table.salt);
  }

  const KnownSymbol* find(std::string_view name) const {
    const std::shared_lock lock(mutex_);
    const auto found = symbols_.find(std::string(name));
    return found != symbols_.end() ? &found->second : nullptr;
  }

  std::optional<std::uint64_t> find_salt(std::string_view id) const {
    const std::shared_lock lock(mutex_);
    const auto found = salts_.find(id);
    return found != salts_.end() ? std::optional(found->second) : std::nullopt;
  }

  std::vector<std::string> ids() const {
    const std::shared_lock lock(mutex_);
    std::vector<std::string> ids;
    for (const auto& [id, salt] : salts_) ids.push_back(id);
    return ids;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::string, KnownSymbol> symbols_;
  std::map<std::string, std::uint64_t, std::less<>> salts_;  // by id
};

const KnownSymbol* known_symbol(std::string_view op) {
  return is_symbol(op) ? KnownSymbols::instance().find(op) : nullptr;
}

}  // namespace

void add_symbols(SymbolTable table) {
  KnownSymbols::instance().add(std::move(table));
}

std::optional<std::uint64_t> find_salt(std::string_view id) {
  return KnownSymbols::instance().find_salt(id);
}

std::vector<std::string> known_symbol_tables() {
  return KnownSymbols::instance().ids();
}

const OpDef* find_symbol(std::string_view symbol) {
  const KnownSymbol* known = known_symbol(symbol);
  return known != nullptr ? known->op : nullptr;
}

const ir::Attributes& attributes_of_symbol(const ir::Node& node) {
  static const ir::Attributes none;
  const KnownSymbol* known = known_symbol(node.op);
  return known != nullptr ? known->attributes : none;
}

bool states_attribute(const ir::Node& node, std::string_view name) {
  return node.attributes.contains(name) || attributes_of_symbol(node).contains(name);
}

UnmaskFunction find_unmask(std::string_view symbol) {
  const KnownSymbol* known = known_symbol(symbol);
  return known != nullptr ? known->unmask : nullptr;
}

}  // namespace tessera::ops
