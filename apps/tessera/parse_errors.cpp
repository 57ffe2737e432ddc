#include "parse_errors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/edit_distance.h"
#include "base/error.h"

namespace tessera::apps {
namespace {

std::vector<std::string> verbs_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  return names;
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Checks a command line without a verb, all words of which must be options.
void check_flags(const CLI::App& app, std::span<const char* const> words) {
  std::vector<std::string> flags = options_of(app);
  flags.emplace_back("-v");
  for (const std::string_view word : words)
    require(std::ranges::find(flags, word) != flags.end(), ErrorKind::invalid_argument,
            "there is no option '{}' before a verb; see 'tessera --help'", word);
}

std::string did_you_mean(std::string_view near) {
  return near.empty() ? std::string() : fmt::format("; did you mean '{}'?", near);
}

std::string describe_extra(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> left = app.remaining(true),
                                 verbs = app.get_subcommands().empty()
                                             ? std::vector<std::string>()
                                             : std::vector<std::string>{app.get_subcommands().front()->get_name()};
  if (left.empty() || verbs.empty()) return error.what();
  const CLI::App& verb = *app.get_subcommands().front();
  if (!left.front().starts_with("-"))
    return fmt::format("'{}' has no place for '{}'; see 'tessera {} --help'", verbs.front(), left.front(),
                       verbs.front());
  std::vector<std::string> options = options_of(verb);
  const std::vector<std::string> common = options_of(app);
  options.insert(options.end(), common.begin(), common.end());
  const std::string name = left.front().substr(0, left.front().find('='));
  const std::string near = did_you_mean(nearest(name, options));
  return fmt::format("'{}' has no option '{}'{}", verbs.front(), name,
                     near.empty() ? fmt::format("; see 'tessera {} --help'", verbs.front()) : near);
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string> candidates) {
  std::string_view best;
  std::size_t least = std::max<std::size_t>(word.size() / 3, 1) + 1;
  for (const std::string& candidate : candidates) {
    // A word that is the beginning of a candidate counts as an abbreviation of it.
    const std::size_t steps =
        word.size() >= 3 && candidate.starts_with(word) ? 1 : base::edit_distance(word.substr(0, 100), candidate);
    if (steps < least) {
      least = steps;
      best = candidate;
    }
  }
  return best;
}

void check_verb(const CLI::App& app, int argc, const char* const* argv) {
  const std::vector<std::string> verbs = verbs_of(app);
  // Options before the verb are flags: none of them takes a value.
  const auto* const end = argv + argc;
  const auto* const word = std::find_if(argv + std::min(argc, 1), end, [](const char* text) { return *text != '-'; });
  const bool asks = std::any_of(argv + std::min(argc, 1), word, [](std::string_view text) {
    return text == "--help" || text == "-h" || text == "--version";
  });
  if (asks) return;
  if (word == end) check_flags(app, {argv + std::min(argc, 1), end});
  require(word != end, ErrorKind::invalid_argument, "no verb given; verbs: {}",
          fmt::format("{}", fmt::join(verbs, ", ")));
  if (std::ranges::find(verbs, std::string_view(*word)) != verbs.end()) return;
  const std::string near = did_you_mean(nearest(*word, verbs));
  fail(ErrorKind::invalid_argument, "unknown verb '{}'{}", std::string_view(*word),
       near.empty() ? fmt::format("; verbs: {}", fmt::join(verbs, ", ")) : near);
}

std::string describe(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) return describe_extra(app, error);
  std::string text = error.what();
  if (const std::size_t at = text.find(": expects "); at != std::string::npos) text.erase(at, 1);
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError) && !app.get_subcommands().empty()) {
    std::string words;
    for (const CLI::App* verb = &app; !verb->get_subcommands().empty();) {
      verb = verb->get_subcommands().front();
      words += verb->get_name() + ' ';
    }
    text += fmt::format("; see 'tessera {}--help'", words);
  }
  return text;
}

}  // namespace tessera::apps
