// Included before every file of llama.cpp when bench/generate.py compiles it. GCC 12 declares only eight of the 64
// bytes that ldtilecfg reads, and may store the others after it: llama.cpp then ends with an illegal instruction on
// processors with AMX. Here all stores are done before the instruction.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#define _tile_loadconfig(configuration)  \
  do {                                   \
    __asm__ volatile("" : : : "memory"); \
    (_tile_loadconfig)(configuration);   \
  } while (0)
#endif
