// Quantises a model without layers that have weights; what matters is that it links.
#include <tessera/error.h>
#include <tessera/quantise.h>

#include <cstdio>

int main(int, char** arguments) {
  const tessera::Model model = tessera::Model::load(arguments[1]);
  try {
    tessera::quantise(model, {.diagnose = false});
  } catch (const tessera::Error& error) {
    std::printf("%s\n", error.what());
  }
}
