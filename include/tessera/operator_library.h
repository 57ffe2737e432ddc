/* The interface between Tessera and an operator library: code that is shipped apart from an obfuscated model, and says
 * which operators its symbols stand for and how its weights are unmasked (docs/protect.md).
 * `tessera protect --emit-library` writes the sources of such a library. */
#ifndef TESSERA_OPERATOR_LIBRARY_H
#define TESSERA_OPERATOR_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TESSERA_OPERATOR_LIBRARY_VERSION 1u

/* All functions may be called by several threads at once. */
typedef struct tessera_operator_library {
  uint32_t version; /* TESSERA_OPERATOR_LIBRARY_VERSION when the library was built */
  uint32_t texts;   /* the number of texts */
  /* Writes the first `capacity` bytes of a text, and returns how many it has in all. Text 0 is the id of the symbols
   * (32 hexadecimal digits), text 1 the salt (16 hexadecimal digits), and each further text a symbol: a node in
   * Tessera's text form, `() = OPERATOR "SYMBOL" () {attributes}`. */
  size_t (*read_text)(uint32_t text, char* to, size_t capacity);
  /* Computes words [first, first + words) of a weight, of 4 bytes each, from its masked words. Both pointers are those
   * of word `first`. `mask` is the attribute `mask` of the symbol. NULL: no weights are masked. */
  void (*unmask)(uint32_t mask, const void* masked, void* plain, uint64_t first, uint64_t words);
} tessera_operator_library;

/* What a library exports. Returns NULL if it does not support this version of the interface. The result lives as long
 * as the library is loaded, which is until the process ends. */
typedef const tessera_operator_library* (*tessera_operator_library_function)(uint32_t version);
#define TESSERA_OPERATOR_LIBRARY_NAME "tessera_operator_library_of"

#ifdef __cplusplus
}
#endif

#endif
