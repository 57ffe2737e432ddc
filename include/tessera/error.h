// The one exception type for faults of the user's (a bad model, a bad input, a missing file, a budget exceeded).
// Bugs of Tessera's own are checked by assertions (src/base/assert.h) and say that they are bugs.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// The kind of an error; the command line maps each kind to an exit code of its own (see exit_code).
enum class ErrorKind {
  invalid_argument,  // a wrong call: unknown input name, wrong type, rank or dimension
  invalid_model,     // the model breaks the rules of its format or of an operator
  unsupported,       // the model is legal, but Tessera does not have what it asks for
  not_found,         // a file or a named thing does not exist
  io,                // reading or writing failed
  over_budget,       // memory, time, size or depth beyond the set limit
  cancelled,         // the caller asked a run to stop
  failed,            // a run failed on its data: index out of range, division by zero …
};

std::string_view to_string(ErrorKind kind);
// Process exit code for a kind: 2 invalid_argument, 3 invalid_model, 4 unsupported, 5 not_found, 6 io, 7 over_budget,
// 8 cancelled, 9 failed.
int exit_code(ErrorKind kind);

class Error : public std::runtime_error {
 public:
  // Control characters in `message`, and whatever else is not safe to print, are escaped; a very long one is cut.
  Error(ErrorKind kind, std::string message);

  ErrorKind kind() const { return kind_; }
  // The message alone, without the places it passed through.
  const std::string& message() const { return message_; }
  // Where it happened, innermost first: "node 'conv1' (Conv)", "file model.onnx".
  const std::vector<std::string>& context() const { return context_; }

  // Adds an outer place; what() is "message (in A, in B)".
  Error& add_context(std::string place);
  const char* what() const noexcept override { return full_.c_str(); }

 private:
  ErrorKind kind_;
  std::string message_;
  std::vector<std::string> context_;
  std::string full_;
};

}  // namespace tessera
