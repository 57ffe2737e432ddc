// The interface of libtessera_mpi.so: the part of MPI that ranks need, as a table of C functions. The program loads the
// library at run time and so needs no MPI itself; for another MPI, the library alone is built again.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {

struct TesseraMpiRequest;  // a message that is being sent or received

// All functions but `start` and `abort_at_exit` may be called from any thread, one at a time. Those that return int
// return 0 or a number that `describe` explains. Tags are from 0 to the number that `start` states.
struct TesseraMpiPlugin {
  uint32_t version;  // kTesseraMpiPluginVersion
  // Begins to use MPI, which is possible once in a process. States the rank, the number of ranks and the largest tag.
  int (*start)(int* rank, int* size, int* most_tag);
  // Begin to send or receive `bytes` bytes, in messages of at most `most_message_bytes`, which must be the same on both
  // sides and is at least 1. The memory must remain until the request is complete. Messages between the same ranks with
  // the same tag arrive in the order in which they were begun.
  int (*send)(const void* memory, size_t bytes, size_t most_message_bytes, int peer, int tag,
              TesseraMpiRequest** request);
  int (*receive)(void* memory, size_t bytes, size_t most_message_bytes, int peer, int tag, TesseraMpiRequest** request);
  // States whether the request is complete. If it is, or if the call fails, the request no longer exists.
  int (*test)(TesseraMpiRequest* request, int* complete);
  // Takes back a receive to which nothing was sent.
  int (*take_back)(TesseraMpiRequest* request);
  // Ends the use of MPI as a rank that has done its work; waits for all ranks to do so.
  int (*finish)(void);
  // Has MPI_Abort end all ranks, with this exit code, when this process exits.
  void (*abort_at_exit)(int code);
  // Writes the description of an error, which ends with a zero.
  void (*describe)(int error, char* text, size_t bytes);
};

// The library's only function: returns its table, or null if it has none of that version.
typedef const TesseraMpiPlugin* (*TesseraMpiPluginFunction)(uint32_t version);

}  // extern "C"

inline constexpr uint32_t kTesseraMpiPluginVersion = 1;
inline constexpr const char *kTesseraMpiPluginName = "tessera_mpi_plugin", *kTesseraMpiPluginFile = "libtessera_mpi.so";
