// Tables of symbols (protect/obfuscate/symbol_file.h) from text: one that is read is written and read again as itself.
#include "ops/symbols.h"

#include "protect/obfuscate/symbol_file.h"
#include "target.h"
#include "tessera/error.h"

namespace tessera::fuzz {
namespace {

// seeds/package/obfuscated is a perceptron of two layers, obfuscated at degree 3.
constexpr std::string_view kSymbolsOfSeed = R"(graph "tessera symbols 1" {
  metadata "id" = "a58280621b71729d655b2313df200ecb"
  metadata "salt" = "e31f84b9cb376315"
  () = tessera::Unmask "tessera::_1f47c969c1b8f0f3" () {key = [1679585149, 495960031, 4222244811, 397975772,
      1411649019, 1243631979, 3481294087, 4115297060], shape = [8, 6]}
  () = tessera::After "tessera::_3ffe811b69147c44" ()
  () = Reshape "tessera::_4f808c2b19ee3a8c" ()
  () = tessera::After "tessera::_1728e942713c8b1a" ()
  () = tessera::Linear "tessera::_95d23f50c3c3f31c" () {activation = "Relu", dense_weights = 1, transB = 1}
  () = tessera::After "tessera::_eaa63474dc513dbd" ()
  () = Reshape "tessera::_877d6104bebfdecb" ()
  () = tessera::After "tessera::_780e2bcf1fd21a0e" ()
  () = tessera::Unmask "tessera::_cd4eaf07008a6e5c" () {key = [1796984347, 2336752317, 1956446228, 2639308429,
      502362805, 279994962, 212095639, 2472222849], shape = [8, 8]}
  () = tessera::After "tessera::_4a8394b87bfc6f53" ()
  () = tessera::After "tessera::_1975b3d93c53693a" ()
  () = tessera::Linear "tessera::_f0f38fabb9493cc9" () {activation = "Relu", dense_weights = 1, transB = 1}
  () = tessera::After "tessera::_10dfcff1246d99d5" ()
  () = tessera::After "tessera::_8b83a872614d8dcf" ()
  () = tessera::Unmask "tessera::_b0409623799fd80a" () {key = [1141766337, 2086908922, 4081184027, 1578379765,
      3848388014, 803138495, 4170527568, 3323776976], shape = [3, 8]}
  () = Reshape "tessera::_844e296c05a8da4b" ()
  () = Reshape "tessera::_a27372f7e36838c0" ()
  () = tessera::After "tessera::_863e4a3f2451ea2a" ()
  () = Gemm "tessera::_c90ee290de63359c" () {transB = 1}
}
)";

}  // namespace

void know_symbols_of_seed() {
  static const bool known = (ops::add_symbols(protect::parse_symbols(kSymbolsOfSeed)), true);
  (void)known;
}

void symbols(std::span<const std::byte> input) {
  ops::SymbolTable table;
  try {
    table = protect::parse_symbols({reinterpret_cast<const char*>(input.data()), input.size()});
  } catch (const Error&) {
    return;
  }
  const std::string text = protect::symbol_text(table);
  if (protect::symbol_text(protect::parse_symbols(text)) != text) finding("a table of symbols reads back as another");
}

}  // namespace tessera::fuzz
