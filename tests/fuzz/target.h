// Fuzz targets: each gives bytes that may be anything to one part of the library.
//
// A target returns for whatever the library accepts, and for what it refuses with tessera::Error. All else is a
// finding: another exception, a fault that a sanitizer sees, a hang, more memory than the limits of scripts/fuzz.sh, a
// broken promise (see finding).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::fuzz {

struct Target {
  std::string_view name;
  void (*run)(std::span<const std::byte> input);
  // Messages of onnx.proto that an input holds, so that mutations keep their structure. One: the input is such a
  // message. Several: the first byte, modulo their number, says which one follows. None: the input has no such
  // structure.
  std::span<const std::string_view> messages;
};

const std::vector<Target>& all_targets();
// Those of the server, where it is built.
std::span<const Target> serve_targets();
// Those of protected files, where libsodium was found.
std::span<const Target> protect_targets();
std::span<const Target> secret_shared_targets();
// Null when unknown.
const Target* find_target(std::string_view name);

// Prints what the library should have done and aborts, which is how a fuzzer is told.
[[noreturn]] void finding(const std::string& what);

// The first byte's value (0 when there is none) and what follows it.
struct Tagged {
  std::size_t tag = 0;
  std::span<const std::byte> rest;
};
Tagged split_tag(std::span<const std::byte> input);

// Makes the symbols of the seed package/obfuscated known, once.
void know_symbols_of_seed();

void chat_template(std::span<const std::byte> input);
void gguf(std::span<const std::byte> input);
void image(std::span<const std::byte> input);
void model_run(std::span<const std::byte> input);
void npy(std::span<const std::byte> input);
void onnx_reader(std::span<const std::byte> input);
void package(std::span<const std::byte> input);
void safetensors(std::span<const std::byte> input);
void serve_grpc(std::span<const std::byte> input);
void serve_http(std::span<const std::byte> input);
void serve_picture(std::span<const std::byte> input);
void serve_request(std::span<const std::byte> input);
void serve_settings(std::span<const std::byte> input);
void symbols(std::span<const std::byte> input);
void text(std::span<const std::byte> input);
void tokenizer(std::span<const std::byte> input);
void value_proto(std::span<const std::byte> input);

}  // namespace tessera::fuzz
