// An ONNX model from bytes to outputs.
#include <optional>

#include "io/onnx/reader.h"
#include "run_model.h"
#include "target.h"
#include "tessera/error.h"

namespace tessera::fuzz {

void model_run(std::span<const std::byte> input) {
  std::optional<Model> model;
  try {
    model.emplace(std::make_shared<ir::Graph>(io::read_model_bytes(input)));
  } catch (const Error&) {
    return;
  }
  run_on_devices(*model, input);
}

}  // namespace tessera::fuzz
