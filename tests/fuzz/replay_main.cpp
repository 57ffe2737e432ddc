// Runs a fuzz target on files, without a fuzzer: fuzz_replay TARGET FILE…
#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

#include "target.h"
#include "tessera/images.h"

namespace {

bool replay(const tessera::fuzz::Target& target, const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "fuzz_replay: cannot read %s\n", path);
    return false;
  }
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::printf("%s\n", path);
  std::fflush(stdout);  // when the target aborts, the last line names the file
  target.run(std::as_bytes(std::span(bytes)));
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  tessera::register_image_codecs();
  const tessera::fuzz::Target* target = argc > 2 ? tessera::fuzz::find_target(argv[1]) : nullptr;
  if (target == nullptr) {
    std::fprintf(stderr, "usage: fuzz_replay TARGET FILE…\n");
    return 2;
  }
  for (int i = 2; i < argc; ++i) {
    if (!replay(*target, argv[i])) return 1;
  }
  return 0;
}
