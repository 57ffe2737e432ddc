#include "protect/obfuscate/symbol_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>

#include "base/error.h"
#include "io/file.h"
#include "io/output_file.h"
#include "ir/text.h"
#include "protect/licence.h"
#include "tessera/obfuscate.h"

namespace tessera::protect {
namespace {

constexpr std::string_view kTitle = "tessera symbols 1";
constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;

std::string metadata_of(const ir::Graph& graph, const std::string& key) {
  const auto found = graph.metadata.find(key);
  require(found != graph.metadata.end(), ErrorKind::invalid_model, "the table of symbols has no {}", key);
  return found->second;
}

std::uint64_t number_of(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  require(error == std::errc() && end == text.data() + text.size(), ErrorKind::invalid_model,
          "the salt of the table of symbols is no hexadecimal number");
  return number;
}

ir::Graph graph_of(const ops::SymbolTable& table) {
  ir::Graph graph;
  graph.name = kTitle;
  graph.metadata = {{"id", table.id}, {"salt", fmt::format("{:016x}", table.salt)}};
  for (const ops::Symbol& symbol : table.symbols)
    graph.add_node({symbol.op, symbol.name, {}, {}, symbol.attributes, 0});
  return graph;
}

}  // namespace

std::string symbol_text(const ops::SymbolTable& table) {
  return ir::print(graph_of(table));
}

std::string symbol_line(const ops::Symbol& symbol) {
  const std::string text = symbol_text({"", 0, {symbol}});
  const std::size_t begin = text.find("  ()"), end = text.rfind('}');
  return text.substr(begin, end - begin);
}

ops::SymbolTable parse_symbols(std::string_view text) {
  const ir::Graph graph = ir::parse(text);
  require(graph.name == kTitle, ErrorKind::invalid_model, "not a table of symbols that this version of Tessera reads");
  ops::SymbolTable table{metadata_of(graph, "id"), number_of(metadata_of(graph, "salt")), {}};
  require(table.id.size() == 32 &&
              std::ranges::all_of(table.id, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }),
          ErrorKind::invalid_model, "the id of the table of symbols is no 32 hexadecimal digits");
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    require(node.inputs.empty() && node.outputs.empty(), ErrorKind::invalid_model,
            "symbol '{}' has operands in the table of symbols", node.name);
    table.symbols.push_back({node.name, node.op, node.attributes});
  }
  return table;
}

namespace {

ops::SymbolTable read_symbols(const std::filesystem::path& path, bool with_licences) {
  try {
    const std::vector<std::byte> bytes = io::read_file(path, kMostBytes);
    if (!is_licence(bytes)) return parse_symbols({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    require(with_licences, ErrorKind::invalid_argument,
            "the file is a licence for one machine; expected the file of symbols that it was made of");
    return read_licence(bytes, machine_identifier());
  } catch (Error& error) {
    error.add_context("file " + path.string());
    throw;
  }
}

}  // namespace

ops::SymbolTable read_symbol_file(const std::filesystem::path& path) {
  return read_symbols(path, false);
}

ops::SymbolTable read_symbols_or_licence(const std::filesystem::path& path) {
  return read_symbols(path, true);
}

void write_symbol_file(const std::filesystem::path& path, const ops::SymbolTable& table) {
  const std::string text = symbol_text(table);
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  require(file >= 0, ErrorKind::io, "cannot write the symbols '{}': {}", path.string(),
          std::generic_category().message(errno));
  std::size_t written = 0;
  while (written < text.size()) {
    const ::ssize_t bytes = ::write(file, text.data() + written, text.size() - written);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) break;
    written += static_cast<std::size_t>(bytes);
  }
  const bool is_safe = written == text.size() && ::fsync(file) == 0;
  ::close(file);
  require(is_safe, ErrorKind::io, "cannot write the symbols '{}'", path.string());
}

}  // namespace tessera::protect
