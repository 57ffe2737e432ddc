// The entry points of libFuzzer: tessera_fuzz --target=NAME [libFuzzer's own arguments] [CORPUS…]
// https://llvm.org/docs/LibFuzzer.html
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "protobuf_mutator.h"
#include "target.h"
#include "tessera/images.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace tessera::fuzz {
namespace {

const Target* target = nullptr;

std::span<const std::byte> as_bytes(const std::uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span(data, size));
}

// Bytes before the message, and its type.
struct Layout {
  std::size_t prefix = 0;
  std::string_view message;
};

Layout layout_of(std::span<const std::byte> input) {
  if (target->messages.size() == 1) return {0, target->messages[0]};
  return {input.empty() ? std::size_t{0} : 1, target->messages[split_tag(input).tag % target->messages.size()]};
}

std::string_view message_in(const std::uint8_t* data, std::size_t size, const Layout& layout) {
  return {reinterpret_cast<const char*>(data) + layout.prefix, size - layout.prefix};
}

// Puts the message in place; 0 when there is none or it does not fit.
std::size_t put(const std::string& message, const Layout& layout, std::uint8_t* data, std::size_t most) {
  if (message.empty() || layout.prefix + message.size() > most) return 0;
  std::memcpy(data + layout.prefix, message.data(), message.size());
  return layout.prefix + message.size();
}

const ProtobufMutator& mutator() {
  static const ProtobufMutator mutator(TESSERA_ONNX_SCHEMA);
  return mutator;
}

[[noreturn]] void explain_usage() {
  std::fprintf(stderr, "usage: tessera_fuzz --target=NAME [libFuzzer's arguments] [CORPUS…]; targets:");
  for (const Target& known : all_targets())
    std::fprintf(stderr, " %.*s", static_cast<int>(known.name.size()), known.name.data());
  std::fprintf(stderr, "\n");
  std::exit(2);
}

}  // namespace
}  // namespace tessera::fuzz

using namespace tessera::fuzz;

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  tessera::register_image_codecs();
  constexpr std::string_view flag = "--target=";
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = (*argv)[i];
    if (argument.starts_with(flag)) target = find_target(argument.substr(flag.size()));
  }
  if (target == nullptr) explain_usage();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  target->run(as_bytes(data, size));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  constexpr unsigned as_bytes_one_in = 8;  // what is no message must be tried as well
  if (target->messages.empty() || seed % as_bytes_one_in == 0) return LLVMFuzzerMutate(data, size, most);
  const Layout layout = layout_of(as_bytes(data, size));
  const std::size_t mutated =
      put(mutator().mutate(layout.message, message_in(data, size, layout), seed), layout, data, most);
  return mutated > 0 ? mutated : LLVMFuzzerMutate(data, size, most);
}

extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* first, std::size_t first_size,
                                                 const std::uint8_t* second, std::size_t second_size, std::uint8_t* out,
                                                 std::size_t most, unsigned seed) {
  if (target->messages.empty() || first_size > most) return 0;
  const Layout layout = layout_of(as_bytes(first, first_size)), other = layout_of(as_bytes(second, second_size));
  if (layout.message != other.message) return 0;
  std::memcpy(out, first, layout.prefix);
  return put(mutator().cross_over(layout.message, message_in(first, first_size, layout),
                                  message_in(second, second_size, other), seed),
             layout, out, most);
}
