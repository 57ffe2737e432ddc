// Gives tests in Python access to the logits of language models: reads tokens from standard input, and writes the
// logits of each of them (float32, [tokens, vocabulary]) to standard output.
// Usage: language_probe MODEL [exact] [f32|i8] [threads=N] [chunk=N] [others=N] [context=N]
//   chunk: tokens of a step; others: sequences of other tokens in the same steps.
#include <charconv>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <string_view>
#include <vector>

#include "generate/language_source.h"
#include "generate/language_step.h"
#include "tessera/error.h"

namespace tessera {
namespace {

struct Request {
  generate::LanguageStepOptions options;
  std::int64_t chunk = 64, others = 0;
};

std::int64_t number_of(std::string_view text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

Request read(int argc, char** argv) {
  Request request;
  for (int i = 2; i < argc; ++i) {
    const std::string_view text = argv[i];
    const std::string_view value = text.substr(std::min(text.find('=') + 1, text.size()));
    if (text == "exact") request.options.exact = true;
    else if (text == "i8") request.options.cache_type = DType::i8;
    else if (text == "f32") request.options.cache_type = DType::f32;
    else if (text.starts_with("threads=")) request.options.threads = static_cast<int>(number_of(value));
    else if (text.starts_with("chunk=")) request.chunk = number_of(value);
    else if (text.starts_with("others=")) request.others = number_of(value);
    else if (text.starts_with("context=")) request.options.context = number_of(value);
    else throw Error(ErrorKind::invalid_argument, "unknown argument " + std::string(text));
  }
  return request;
}

int run(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: language_probe MODEL [exact] [f32|i8] [threads=N] [chunk=N] [others=N] [context=N]\n";
    return 2;
  }
  Request request = read(argc, argv);
  const std::filesystem::path path = argv[1];
  const bool is_gguf = path.extension() == ".gguf";
  const generate::LanguageSource source =
      is_gguf ? generate::source_of_gguf(io::GgufFile::open(path)) : generate::source_of_folder(path);
  const std::vector<std::int64_t> tokens{std::istream_iterator<std::int64_t>(std::cin), {}};
  if (request.options.context == 0) request.options.context = static_cast<std::int64_t>(tokens.size());
  request.options.cache_tokens = (request.options.context + 31) / 32 * 32 * (request.others + 1);
  generate::LanguageStep step(*source.values, *source.weights, request.options);
  std::vector<std::int64_t> sequences;
  for (std::int64_t i = 0; i <= request.others; ++i) sequences.push_back(step.open());
  for (std::size_t begin = 0; begin < tokens.size(); begin += static_cast<std::size_t>(request.chunk)) {
    const std::size_t end = std::min(begin + static_cast<std::size_t>(request.chunk), tokens.size());
    std::vector<generate::StepRow> rows;
    std::vector<std::int64_t> wanted;
    // The other sequences stand around the one that is asked for.
    for (std::int64_t s = 0; s <= request.others; ++s) {
      const bool is_asked = s == request.others / 2;
      for (std::size_t i = begin; i < end; ++i) {
        if (is_asked) wanted.push_back(static_cast<std::int64_t>(rows.size()));
        const std::int64_t token = is_asked ? tokens[i] : (tokens[i] * 7 + s * 13 + 1) % step.vocabulary();
        rows.push_back({token, sequences[static_cast<std::size_t>(s)]});
      }
    }
    const std::span<const float> logits = step.run(rows, wanted, {});
    std::cout.write(reinterpret_cast<const char*>(logits.data()), static_cast<std::streamsize>(logits.size_bytes()));
  }
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  try {
    return tessera::run(argc, argv);
  } catch (const tessera::Error& error) {
    std::cerr << error.what() << '\n';
    return tessera::exit_code(error.kind());
  }
}
