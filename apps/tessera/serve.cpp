// tessera serve: hands over to the program tessera-serve, whose libraries nothing else needs.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "base/error.h"
#include "serve_command.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

// Returns the arguments behind the word "serve" on the command line.
std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  std::vector<std::string> words;
  bool behind = false;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\0', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (behind) words.push_back(word);
    behind = behind || (begin > 0 && word == "serve");
    begin = end + 1;
  }
  return words;
}

[[noreturn]] void hand_over() {
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::vector<std::string> words = own_arguments();
  words.insert(words.begin(), "tessera-serve");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  for (const auto& path : {own / "tessera-serve", own.parent_path() / "libexec" / "tessera" / "tessera-serve"}) {
    if (!std::filesystem::exists(path)) continue;
    ::execv(path.c_str(), arguments.data());
    fail(ErrorKind::io, "{} cannot be run: {}", path.string(), std::strerror(errno));
  }
  fail(ErrorKind::unsupported,
       "there is no program tessera-serve beside this one: this build is without the server (scripts/setup.sh --serve "
       "installs what building it needs)");
}

}  // namespace

void add_serve(CLI::App& app) {
  auto arguments = std::make_shared<ServeArguments>();
  CLI::App* const verb = app.add_subcommand("serve", "Answer requests for inference over HTTP and gRPC");
  add_serve_command(*verb, *arguments);
  verb->callback([arguments] { hand_over(); });
}

}  // namespace tessera::apps
