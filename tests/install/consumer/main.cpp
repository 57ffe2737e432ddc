// Loads a model, feeds 1, 2, 3 … to every float input, runs it and prints the outputs.
#include <tessera/error.h>
#include <tessera/model.h>
#include <tessera/session.h>
#include <tessera/version.h>

#include <cstdio>
#include <numeric>

int main(int, char** arguments) try {
  const tessera::Model model = tessera::Model::load(arguments[1]);
  tessera::Session session(model);
  tessera::NamedValues inputs;
  for (const tessera::ValueDescription& input : model.inputs()) {
    tessera::Shape shape = input.dims;
    for (std::int64_t& dim : shape) dim = dim < 0 ? 1 : dim;
    tessera::Tensor tensor(tessera::DType::f32, shape);
    std::iota(tensor.mutable_data<float>(), tensor.mutable_data<float>() + tensor.elements(), 1.0f);
    inputs[input.name] = tensor;
  }
  std::printf("tessera %s\n", TESSERA_VERSION);
  for (const auto& [name, value] : session.run(inputs)) {
    std::printf("%s %s:", name.c_str(), tessera::to_string(value.tensor().shape()).c_str());
    for (float element : value.tensor().values<float>()) std::printf(" %.4f", element);
    std::printf("\n");
  }
  return 0;
} catch (const tessera::Error& error) {
  std::fprintf(stderr, "consumer: %s\n", error.what());
  return tessera::exit_code(error.kind());
}
