// Operator libraries: loaded, and written as sources.
#include "tessera/operator_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "base/error.h"
#include "io/output_file.h"
#include "ops/values/unmask.h"
#include "protect/obfuscate/dice.h"
#include "protect/obfuscate/symbol_file.h"
#include "tessera/obfuscate.h"

namespace tessera {
namespace {

using protect::Dice;

std::string text_of(const tessera_operator_library& library, std::uint32_t index) {
  constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  const std::size_t bytes = library.read_text(index, nullptr, 0);
  require(bytes <= kMostBytes, ErrorKind::over_budget, "a text of {} bytes, at most {} are allowed", bytes, kMostBytes);
  std::string text(bytes, '\0');
  library.read_text(index, text.data(), text.size());
  return text;
}

ops::SymbolTable table_of(const tessera_operator_library& library) {
  require(library.texts >= 2, ErrorKind::invalid_model, "the operator library has no symbols");
  std::string graph = fmt::format(
      "graph \"tessera symbols 1\" {{\n  metadata \"id\" = \"{}\"\n  metadata \"salt\" = "
      "\"{}\"\n",
      text_of(library, 0), text_of(library, 1));
  for (std::uint32_t i = 2; i < library.texts; ++i) graph += text_of(library, i);
  ops::SymbolTable table = protect::parse_symbols(graph + "}\n");
  table.unmask = library.unmask;
  return table;
}

// --- sources ---

// How a text is hidden: each with a generator of its own.
struct Cipher {
  std::size_t form = 0;
  std::uint32_t start = 0, factor = 0, addend = 0;

  std::uint32_t step(std::uint32_t state) const {
    if (form == 0) return state * factor + addend;
    if (form == 1) {
      state ^= state << 13;
      state ^= state >> 17;
      return state ^ state << 5;
    }
    return (state + addend) * factor ^ state >> 7;
  }
  std::string_view source() const {
    static constexpr std::string_view kForms[] = {
        "k = k * {0}u + {1}u;",
        "k ^= k << 13; k ^= k >> 17; k ^= k << 5;",
        "k = (k + {1}u) * {0}u ^ k >> 7;",
    };
    return kForms[form];
  }
};

Cipher new_cipher(Dice& dice) {
  const auto word = [&] { return static_cast<std::uint32_t>(dice.next()); };
  return {dice.below(3), word() | 1, word() | 1, word() | 1};
}

std::string text_function(std::size_t index, std::string_view text, Dice& dice) {
  const Cipher cipher = new_cipher(dice);
  const auto shift = static_cast<unsigned>(8 + dice.below(16));
  std::string bytes;
  std::uint32_t state = cipher.start;
  for (std::size_t i = 0; i < text.size(); ++i) {
    state = cipher.step(state);
    bytes += fmt::format("{},{}", static_cast<unsigned char>(text[i]) ^ (state >> shift & 255),
                         i % 24 == 23 || i + 1 == text.size() ? "\n  " : "");
  }
  return fmt::format(
      "static size_t text_{0}(char* to, size_t capacity) {{\n"
      "  static const unsigned char hidden[] = {{\n  {1}}};\n"
      "  uint32_t k = {2}u;\n"
      "  size_t i;\n"
      "  for (i = 0; i < sizeof(hidden) && i < capacity; ++i) {{\n"
      "    {3}\n"
      "    to[i] = (char)(hidden[i] ^ (k >> {4} & 255u));\n"
      "  }}\n"
      "  return sizeof(hidden);\n"
      "}}\n",
      index, bytes, cipher.start, fmt::format(fmt::runtime(cipher.source()), cipher.factor, cipher.addend), shift);
}

// The same numbers as ops::Mask::noise gives, written in one of several ways.
std::string mask_function(std::size_t index, const ops::Mask& mask, Dice& dice) {
  const auto& [m, a, s] = mask;
  const std::string begin = fmt::format(
      "static void mask_{}(const unsigned char* from, unsigned char* to, uint64_t first, uint64_t words) {{\n", index);
  const std::string rest = fmt::format("x ^= x >> {}; x *= {}u; x ^= x >> {}; x = x * {}u + {}u; x ^= x >> {};", s[0],
                                       m[1], s[1], m[2], a[1], s[2]);
  switch (dice.below(3)) {
    case 0:
      return begin + fmt::format(
                         "  uint64_t i;\n"
                         "  for (i = 0; i < words; ++i) {{\n"
                         "    uint32_t w, x = (uint32_t)(first + i) * {}u + {}u;\n"
                         "    {}\n"
                         "    memcpy(&w, from + 4 * i, 4);\n    w ^= x;\n    memcpy(to + 4 * i, &w, 4);\n"
                         "  }}\n}}\n",
                         m[0], a[0], rest);
    case 1:
      return begin + fmt::format(
                         "  uint32_t w, x, p = (uint32_t)first * {0}u + {1}u;\n"
                         "  for (; words != 0; --words, p += {0}u, from += 4, to += 4) {{\n"
                         "    x = p;\n    {2}\n"
                         "    memcpy(&w, from, 4);\n    x ^= w;\n    memcpy(to, &x, 4);\n"
                         "  }}\n}}\n",
                         m[0], a[0], rest);
    default:
      return begin + fmt::format(
                         "  uint64_t i = words;\n"
                         "  while (i-- != 0) {{\n"
                         "    uint32_t x = {1}u + {0}u * (uint32_t)(i + first), w = 0;\n"
                         "    memcpy(&w, from + (i << 2), 4);\n    {2}\n"
                         "    w = (w | x) - (w & x);\n    memcpy(to + (i << 2), &w, 4);\n"
                         "  }}\n}}\n",
                         m[0], a[0], rest);
  }
}

std::string cases(std::size_t count, std::string_view line, Dice& dice) {
  std::string text;
  for (const std::size_t i : dice.permutation(count)) text += fmt::format(fmt::runtime(line), i);
  return text;
}

std::string sources_of(const ops::SymbolTable& table, Dice& dice) {
  std::vector<std::string> functions;
  std::vector<std::string> texts{table.id, fmt::format("{:016x}", table.salt)};
  std::size_t masks = 0;
  for (ops::Symbol symbol : table.symbols) {
    if (const auto key = symbol.attributes.find("key");
        symbol.op == ops::unmask.name && key != symbol.attributes.end()) {
      const auto* words = std::get_if<std::vector<std::int64_t>>(&key->second);
      require(words != nullptr, ErrorKind::invalid_model, "the key of symbol '{}' is no list of numbers", symbol.name);
      functions.push_back(mask_function(masks, ops::Mask::from(*words), dice));
      symbol.attributes.erase(key);
      symbol.attributes["mask"] = static_cast<std::int64_t>(masks++);
    }
    texts.push_back(protect::symbol_line(symbol));
  }
  for (const std::size_t i : dice.permutation(texts.size() - 2)) std::swap(texts[2 + i], texts[2]);
  for (std::size_t i = 0; i < texts.size(); ++i) functions.push_back(text_function(i, texts[i], dice));
  std::string source =
      "/* Written by 'tessera protect --emit-library'. Build it with CMake, and ship it apart from the model. */\n"
      "#include <string.h>\n\n#include \"tessera/operator_library.h\"\n\n";
  for (const std::size_t i : dice.permutation(functions.size())) source += functions[i] + "\n";
  source += "static size_t read_text(uint32_t text, char* to, size_t capacity) {\n  switch (text) {\n" +
            cases(texts.size(), "    case {0}: return text_{0}(to, capacity);\n", dice) +
            "    default: return 0;\n  }\n}\n\n"
            "static void unmask(uint32_t mask, const void* masked, void* plain, uint64_t first, uint64_t words) {\n"
            "  switch (mask) {\n" +
            cases(masks, "    case {0}: mask_{0}(masked, plain, first, words); break;\n", dice) +
            "    default: memcpy(plain, masked, 4 * words);\n  }\n}\n\n";
  return source + fmt::format(
                      "#if defined(__GNUC__)\n__attribute__((visibility(\"default\")))\n#endif\n"
                      "const tessera_operator_library* {}(uint32_t version) {{\n"
                      "  static const tessera_operator_library library = {{{}u, {}u, read_text, unmask}};\n"
                      "  return version == library.version ? &library : 0;\n"
                      "}}\n",
                      TESSERA_OPERATOR_LIBRARY_NAME, TESSERA_OPERATOR_LIBRARY_VERSION, texts.size());
}

constexpr std::string_view kBuildFile =
    R"(# cmake -S . -B build -DCMAKE_PREFIX_PATH=<where Tessera is installed> && cmake --build build
cmake_minimum_required(VERSION 3.18)
project(tessera_operators C)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_path(TESSERA_HEADERS tessera/operator_library.h REQUIRED)
add_library(tessera_operators MODULE operators.c)
target_include_directories(tessera_operators PRIVATE "${TESSERA_HEADERS}")
set_target_properties(tessera_operators PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden C_STANDARD 99)
target_link_options(tessera_operators PRIVATE -s)
)";

}  // namespace

void use_operator_library(const std::filesystem::path& path) {
  try {
    require(std::filesystem::exists(path), ErrorKind::not_found, "there is no such operator library");
    void* const library = ::dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) fail(ErrorKind::invalid_model, "not an operator library: {}", ::dlerror());
    const auto function =
        reinterpret_cast<tessera_operator_library_function>(::dlsym(library, TESSERA_OPERATOR_LIBRARY_NAME));
    require(function != nullptr, ErrorKind::invalid_model, "not an operator library: it has no function '{}'",
            TESSERA_OPERATOR_LIBRARY_NAME);
    const tessera_operator_library* const offered = function(TESSERA_OPERATOR_LIBRARY_VERSION);
    require(
        offered != nullptr && offered->version == TESSERA_OPERATOR_LIBRARY_VERSION && offered->read_text != nullptr,
        ErrorKind::unsupported,
        "the operator library is for another version of the interface than {}; build it against the headers of this "
        "Tessera",
        TESSERA_OPERATOR_LIBRARY_VERSION);
    ops::add_symbols(table_of(*offered));
  } catch (Error& error) {
    error.add_context("file " + path.string());
    throw;
  }
}

void emit_operator_library(const std::filesystem::path& symbols, const std::filesystem::path& folder,
                           std::optional<std::uint64_t> seed) {
  const ops::SymbolTable table = protect::read_symbol_file(symbols);
  std::random_device device;
  Dice dice(seed.value_or(std::uint64_t{device()} << 32 | device()));
  io::make_folder(folder);
  io::write_text(folder / "operators.c", sources_of(table, dice));
  io::write_text(folder / "CMakeLists.txt", kBuildFile);
}

}  // namespace tessera
