// Runs a fuzz target on files, or on mutations of them, without a fuzzer (see usage()).
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "protobuf_mutator.h"
#include "target.h"
#include "tessera/images.h"

namespace {

using tessera::fuzz::Target;

constexpr unsigned kMostSeconds = 20;  // of one input
constexpr std::size_t kMostBytes = 32768;

int usage() {
  std::fprintf(stderr,
               "usage: fuzz_replay [--mutations N] [--seed N] TARGET FILE…\n"
               "Runs the target on each file. With --mutations, then on N inputs that are random edits of the files:\n"
               "the same ones for equal files and an equal --seed (1). An input that crashes or takes more than %u\n"
               "seconds is left in the file `finding` of the working directory.\n",
               kMostSeconds);
  return 2;
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

std::optional<std::string> read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string{std::istreambuf_iterator<char>(file), {}};
}

void run(const Target& target, const std::string& input) {
  target.run(std::as_bytes(std::span(input)));
}

// The input that runs, for the handler of the signal that ends it.
const std::string* current = nullptr;

extern "C" void keep_current(int signal) {
  const int file = ::open("finding", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const char* said = "fuzz_replay: could not write the file `finding`\n";
  if (file >= 0 && ::write(file, current->data(), current->size()) == static_cast<ssize_t>(current->size()))
    said = "fuzz_replay: the input that did this is in the file `finding`\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, said, std::char_traits<char>::length(said));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// Random edits of inputs. Equal seeds give equal edits.
class Mutations {
 public:
  Mutations(const Target& target, std::vector<std::string> inputs, std::uint64_t seed)
      : target_(target), inputs_(std::move(inputs)), random_(seed) {
    if (!target.messages.empty()) mutator_.emplace(TESSERA_ONNX_SCHEMA);
  }

  std::string next() {
    std::string input = any_input();
    for (std::size_t edits = 1 + below(4); edits > 0; --edits) {
      if (mutator_ && below(4) != 0) edit_message(input);
      else edit_bytes(input);
    }
    if (input.size() > kMostBytes) input.resize(kMostBytes);
    return input;
  }

 private:
  std::size_t below(std::size_t bound) { return random_() % std::max<std::size_t>(1, bound); }
  const std::string& any_input() { return inputs_[below(inputs_.size())]; }

  void edit_message(std::string& input) {
    const std::size_t prefix = target_.messages.size() == 1 ? 0 : std::min<std::size_t>(1, input.size());
    const std::size_t tag = prefix == 0 ? 0 : static_cast<unsigned char>(input[0]);
    const std::string_view type = target_.messages[tag % target_.messages.size()];
    const std::string_view message = std::string_view(input).substr(prefix);
    const std::string_view other = any_input();
    const std::string edited =
        below(4) == 0 ? mutator_->cross_over(type, message, other.substr(std::min(prefix, other.size())), random_())
                      : mutator_->mutate(type, message, random_());
    if (!edited.empty()) input.replace(prefix, std::string::npos, edited);
  }

  void edit_bytes(std::string& input) {
    const std::size_t at = below(input.size() + 1), count = 1 + below(std::min<std::size_t>(input.size() + 1, 16));
    switch (below(6)) {
      case 0:
        input.insert(at, 1, static_cast<char>(random_()));
        break;
      case 1:
        input.erase(at, count);
        break;
      case 2:
        input.insert(at, input.substr(below(input.size() + 1), count));
        break;
      case 3: {
        const std::string& other = any_input();
        input.replace(at, count, other, below(other.size() + 1), 1 + below(64));
        break;
      }
      case 4:
        if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        break;
      default: {
        static constexpr char kEdges[] = {0, 1, 0x7F, static_cast<char>(0x80), static_cast<char>(0xFF), '"', '[', '='};
        for (std::size_t i = at; i < std::min(at + count, input.size()); ++i) input[i] = kEdges[below(sizeof(kEdges))];
      }
    }
  }

  const Target& target_;
  std::vector<std::string> inputs_;
  std::mt19937_64 random_;
  std::optional<tessera::fuzz::ProtobufMutator> mutator_;
};

void run_mutations(const Target& target, std::vector<std::string> inputs, std::uint64_t count, std::uint64_t seed) {
  Mutations mutations(target, std::move(inputs), seed);
  std::string input;
  current = &input;
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM}) std::signal(signal, keep_current);
  for (std::uint64_t i = 0; i < count; ++i) {
    input = mutations.next();
    ::alarm(kMostSeconds);
    run(target, input);
  }
  ::alarm(0);
  std::printf("%llu mutations\n", static_cast<unsigned long long>(count));
}

}  // namespace

int main(int argc, char** argv) {
  tessera::register_image_codecs();
  std::uint64_t mutations = 0, seed = 1;
  int at = 1;
  for (; at + 1 < argc && std::string_view(argv[at]).starts_with("--"); at += 2) {
    const std::string_view option = argv[at];
    const std::optional<std::uint64_t> value = number(argv[at + 1]);
    if ((option != "--mutations" && option != "--seed") || !value) return usage();
    (option == "--seed" ? seed : mutations) = *value;
  }
  const Target* target = at + 1 < argc ? tessera::fuzz::find_target(argv[at]) : nullptr;
  if (target == nullptr) return usage();
  std::vector<std::string> inputs;
  for (int i = at + 1; i < argc; ++i) {
    std::optional<std::string> input = read(argv[i]);
    if (!input) {
      std::fprintf(stderr, "fuzz_replay: cannot read %s\n", argv[i]);
      return 1;
    }
    std::printf("%s\n", argv[i]);
    std::fflush(stdout);  // when the target aborts, the last line names the file
    run(*target, *input);
    inputs.push_back(*std::move(input));
  }
  if (mutations > 0) run_mutations(*target, std::move(inputs), mutations, seed);
  return 0;
}
