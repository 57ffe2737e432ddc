// Reads a model and writes it: rewrite_model IN.onnx OUT.onnx
#include <cstdio>

#include "tessera/error.h"
#include "tessera/model.h"

int main(int count, char** arguments) try {
  if (count != 3) return tessera::exit_code(tessera::ErrorKind::invalid_argument);
  tessera::Model::load(arguments[1]).save(arguments[2]);
  return 0;
} catch (const tessera::Error& error) {
  std::fprintf(stderr, "rewrite_model: %s\n", error.what());
  return tessera::exit_code(error.kind());
}
