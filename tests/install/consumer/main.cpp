// A program of somebody else's: loads a model from a file and from memory, looks at what it says about itself, and runs
// it in every way.
#include <tessera/device.h>
#include <tessera/error.h>
#include <tessera/gate.h>
#include <tessera/half.h>
#include <tessera/log.h>
#include <tessera/model.h>
#include <tessera/optimise.h>
#include <tessera/session.h>
#include <tessera/version.h>
#include <tessera/view.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

namespace {

class CountingGate final : public tessera::StepGate {
 public:
  bool may_pass(const tessera::StepInfo&) override {
    ++steps;
    return true;
  }
  void wait(const tessera::StepInfo&) override {}
  int steps = 0;
};

void print(const char* what, const tessera::Tensor& tensor) {
  std::printf("%s %s:", what, tessera::to_string(tensor.shape()).c_str());
  for (const float element : tensor.values<float>()) std::printf(" %.4f", element);
  std::printf("\n");
}

}  // namespace

int main(int, char** arguments) try {
  tessera::set_log_handler(
      [](tessera::LogLevel, std::string_view message) { std::printf("warning: %s\n", std::string(message).c_str()); });
  std::printf("tessera %s\n", TESSERA_VERSION);
  const tessera::Model model = tessera::Model::load(arguments[1]);
  for (const tessera::ValueDescription& input : model.inputs())
    std::printf("%s: %s, opset %d\n", input.name.c_str(), input.type.c_str(),
                static_cast<int>(model.metadata().opsets.at("ai.onnx")));
  tessera::Session session(model);
  const std::vector<float> x{1, 2, 3, 4};
  const tessera::NamedValues inputs{{"x", tessera::view_of({1, 4}, std::span<const float>(x))}};
  print("y", session.run(inputs).at("y").tensor());
  CountingGate gate;
  tessera::Tensor y(tessera::DType::f32, {1, 4});
  session.run(inputs, {{"y", y}}, {.gate = &gate});
  print(gate.steps > 0 ? "bound" : "no gate", y);

  std::ifstream file(arguments[1], std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  tessera::Session other(tessera::Model::from_bytes(std::as_bytes(std::span(bytes))));
  print("from bytes", other.run(inputs, {"y"})[0].tensor());
  std::printf("half %.1f\n", tessera::to_float(tessera::to_f16(0.5f)));
  try {
    session.run({});
  } catch (const tessera::Error& error) {
    std::printf("%s\n", error.what());
  }
  return 0;
} catch (const tessera::Error& error) {
  std::fprintf(stderr, "consumer: %s\n", error.what());
  return tessera::exit_code(error.kind());
}
