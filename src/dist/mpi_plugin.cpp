// libtessera_mpi.so (dist/mpi_plugin.h) over MPI 3.
#include "dist/mpi_plugin.h"

#include <mpi.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

struct TesseraMpiRequest {
  std::vector<MPI_Request> messages;
  std::vector<int> expected;  // bytes of each message, if they are received
};

namespace {

// Errors of this library; those of MPI are positive.
constexpr int kInUse = -1, kNoThreads = -2, kNoMemory = -3, kOtherSize = -4;

MPI_Comm group = MPI_COMM_NULL;
int exit_code = 1;

int start(int* rank, int* size, int* most_tag) {
  int is_in_use = 0, threads = MPI_THREAD_SINGLE;
  if (const int error = MPI_Initialized(&is_in_use); error != MPI_SUCCESS) return error;
  if (is_in_use != 0) return kInUse;
  if (const int error = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads); error != MPI_SUCCESS)
    return error;
  if (threads < MPI_THREAD_SERIALIZED) return kNoThreads;
  if (const int error = MPI_Comm_dup(MPI_COMM_WORLD, &group); error != MPI_SUCCESS) return error;
  MPI_Comm_set_errhandler(group, MPI_ERRORS_RETURN);
  MPI_Comm_rank(group, rank);
  MPI_Comm_size(group, size);
  void* value = nullptr;
  int found = 0;
  MPI_Comm_get_attr(group, MPI_TAG_UB, &value, &found);
  *most_tag = found != 0 ? *static_cast<const int*>(value) : 32767;
  return 0;
}

// Begins a message for each part of the bytes; `begin_one` returns MPI's error.
template <typename BeginOne>
int begin(size_t bytes, size_t most_message_bytes, TesseraMpiRequest** request, const BeginOne& begin_one) {
  try {
    auto* const made = new TesseraMpiRequest;
    const size_t most = std::min<size_t>(most_message_bytes, INT_MAX);
    made->messages.reserve(bytes / most + 1);
    made->expected.reserve(bytes / most + 1);
    size_t done = 0;
    do {
      const int part = static_cast<int>(std::min(bytes - done, most));
      made->messages.push_back(MPI_REQUEST_NULL);
      made->expected.push_back(part);
      // After an error, messages that were begun may still use the request: it is not deleted.
      if (const int error = begin_one(done, part, &made->messages.back()); error != MPI_SUCCESS) return error;
      done += static_cast<size_t>(part);
    } while (done < bytes);
    *request = made;
    return 0;
  } catch (const std::bad_alloc&) {
    return kNoMemory;
  }
}

int send(const void* memory, size_t bytes, size_t most_message_bytes, int peer, int tag, TesseraMpiRequest** request) {
  const int error = begin(bytes, most_message_bytes, request, [&](size_t offset, int part, MPI_Request* message) {
    return MPI_Isend(static_cast<const char*>(memory) + offset, part, MPI_BYTE, peer, tag, group, message);
  });
  if (error == 0) (*request)->expected.clear();
  return error;
}

int receive(void* memory, size_t bytes, size_t most_message_bytes, int peer, int tag, TesseraMpiRequest** request) {
  return begin(bytes, most_message_bytes, request, [&](size_t offset, int part, MPI_Request* message) {
    return MPI_Irecv(static_cast<char*>(memory) + offset, part, MPI_BYTE, peer, tag, group, message);
  });
}

int test(TesseraMpiRequest* request, int* complete) {
  *complete = 0;
  // The messages are received in order, so the last ones that are complete are not needed to know that one is not.
  for (size_t i = 0; i < request->messages.size(); ++i) {
    if (request->messages[i] == MPI_REQUEST_NULL) continue;
    int done = 0, bytes = 0;
    MPI_Status status;
    int error = MPI_Test(&request->messages[i], &done, &status);
    if (error == MPI_SUCCESS && done == 0) return 0;
    if (error == MPI_SUCCESS && !request->expected.empty()) error = MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (error == MPI_SUCCESS && !request->expected.empty() && bytes != request->expected[i]) error = kOtherSize;
    if (error != MPI_SUCCESS) return error;  // the request is not deleted: other messages may use it
  }
  delete request;
  *complete = 1;
  return 0;
}

int take_back(TesseraMpiRequest* request) {
  for (MPI_Request& message : request->messages) {
    if (message == MPI_REQUEST_NULL) continue;
    if (const int error = MPI_Cancel(&message); error != MPI_SUCCESS) return error;
    if (const int error = MPI_Wait(&message, MPI_STATUS_IGNORE); error != MPI_SUCCESS) return error;
  }
  delete request;
  return 0;
}

int finish() {
  if (const int error = MPI_Comm_free(&group); error != MPI_SUCCESS) return error;
  return MPI_Finalize();
}

void abort_at_exit(int code) {
  exit_code = code;
  std::atexit([] {
    std::fflush(nullptr);  // MPI_Abort does not
    MPI_Abort(MPI_COMM_WORLD, exit_code);
  });
}

void describe(int error, char* text, size_t bytes) {
  char of_mpi[MPI_MAX_ERROR_STRING] = "an unknown error of MPI";
  int length = 0;
  const char* shown = of_mpi;
  if (error == kInUse) shown = "MPI has been started in this process before";
  else if (error == kNoThreads) shown = "this MPI cannot be used by programs with threads (MPI_THREAD_SERIALIZED)";
  else if (error == kNoMemory) shown = "there is not enough memory for the messages";
  else if (error == kOtherSize) shown = "a message has fewer bytes than were announced";
  else MPI_Error_string(error, of_mpi, &length);
  std::snprintf(text, bytes, "%s", shown);
}

constexpr TesseraMpiPlugin kPlugin = {
    kTesseraMpiPluginVersion, start, send, receive, test, take_back, finish, abort_at_exit, describe};

}  // namespace

extern "C" __attribute__((visibility("default"))) const TesseraMpiPlugin* tessera_mpi_plugin(uint32_t version) {
  return version == kTesseraMpiPluginVersion ? &kPlugin : nullptr;
}
