// tessera completion: prints scripts with which shells complete command lines.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "cli_description.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

using Verbs = std::vector<VerbDescription>;

// Quotes a text for a shell such that it is taken literally.
std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char character : text) out += character == '\'' ? std::string("'\\''") : std::string(1, character);
  return out + "'";
}

// The sentence without characters that have a meaning for shells in descriptions.
std::string plain(std::string_view text) {
  std::string plain(text.substr(0, text.find('\n')));
  std::erase_if(
      plain, [](char character) { return std::string_view("'[]\\:`$\"").find(character) != std::string_view::npos; });
  return plain;
}

std::vector<std::string> names_of(const VerbDescription& verb, bool with_values) {
  std::vector<std::string> names;
  for (const OptionDescription& option : verb.options) {
    if (!option.positional && (!with_values || option.takes_value()))
      names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

bool is_inner(const VerbDescription& verb) {
  return verb.name.find(' ') != std::string::npos;
}

// The names of the verbs; with `inner`, of the nested ones, such as "share run".
std::vector<std::string> verb_names(const Verbs& verbs, bool inner) {
  std::vector<std::string> names;
  for (const VerbDescription& verb : verbs) {
    if (!verb.name.empty() && is_inner(verb) == inner) names.push_back(verb.name);
  }
  return names;
}

// A pattern of a shell's `case` that matches these names, or nothing if there are none.
std::string pattern_of(const std::vector<std::string>& names) {
  std::string pattern = "''";
  for (const std::string& name : names) pattern += "|" + shell_quoted(name);
  return pattern;
}

// Maps "verb:option" to the values of an option, and "verb:" to those of positional arguments. Everything else is
// completed by file names.
std::string bash_script(const Verbs& verbs) {
  std::string options, takers, values;
  for (const VerbDescription& verb : verbs) {
    options += fmt::format("    {}) options={} ;;\n", shell_quoted(verb.name),
                           shell_quoted(fmt::format("{}", fmt::join(names_of(verb, false), " "))));
    takers += fmt::format("    {}) takers={} ;;\n", shell_quoted(verb.name),
                          shell_quoted(fmt::format("{}", fmt::join(names_of(verb, true), " "))));
    for (const OptionDescription& option : verb.options) {
      if (option.values.empty()) continue;
      std::vector<std::string> cases;
      if (option.positional) cases.push_back(shell_quoted(verb.name + ":"));
      else
        for (const std::string& name : option.names) cases.push_back(shell_quoted(verb.name + ":" + name));
      values += fmt::format("    {}) values={} ;;\n", fmt::join(cases, "|"),
                            shell_quoted(fmt::format("{}", fmt::join(option.values, " "))));
    }
  }
  return fmt::format(R"(# bash completion for tessera, made by 'tessera completion bash'
_tessera() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
  local verb='' options takers values='' i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ "${{COMP_WORDS[i]}}" == -* ]] && continue
    if [[ -z "$verb" ]]; then
      verb="${{COMP_WORDS[i]}}"
      continue
    fi
    case "$verb ${{COMP_WORDS[i]}}" in
    {4}) verb="$verb ${{COMP_WORDS[i]}}" ;;
    esac
    break
  done
  COMPREPLY=()
  case "$verb" in
{0}    *) options='' ;;
  esac
  case "$verb" in
{1}    *) takers='' ;;
  esac
  local place="$verb:"
  [[ " $takers " == *" $previous "* && "$previous" == -* ]] && place="$verb:$previous"
  if [[ "$current" == -* && "$place" == "$verb:" ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$current"))
    return
  fi
  [[ -z "$verb" ]] && values={3}
  case "$place" in
{2}  esac
  [[ -n "$values" ]] && COMPREPLY=($(compgen -W "$values" -- "$current"))
}}
complete -o default -F _tessera tessera
)",
                     options, takers, values, shell_quoted(fmt::format("{}", fmt::join(verb_names(verbs, false), " "))),
                     pattern_of(verb_names(verbs, true)));
}

// One specification of _arguments per option: (names)name[text]:message:action.
std::string zsh_option(const OptionDescription& option) {
  const std::string action = option.values.empty() ? "_files" : fmt::format("({})", fmt::join(option.values, " "));
  if (option.positional) return "      " + shell_quoted(fmt::format("*:{}:{}", option.names.front(), action)) + " \\\n";
  std::string lines;
  for (const std::string& name : option.names) {
    const std::string value = option.takes_value() ? fmt::format(":{}:{}", option.type, action) : "";
    lines += "      " + shell_quoted(fmt::format("*{}[{}]{}", name, plain(option.text), value)) + " \\\n";
  }
  return lines;
}

std::string zsh_script(const Verbs& verbs) {
  std::string names, cases;
  for (const VerbDescription& verb : verbs) {
    if (verb.name.empty()) continue;
    if (!is_inner(verb)) names += "    " + shell_quoted(verb.name + ":" + plain(verb.text)) + "\n";
    cases += fmt::format("    {})\n      _arguments \\\n", shell_quoted(verb.name));
    bool placed = false;  // _arguments takes a single rule for all positional arguments
    for (const OptionDescription& option : verb.options) {
      if (!option.positional || !std::exchange(placed, true)) cases += zsh_option(option);
    }
    cases += "      ;;\n";
  }
  return fmt::format(R"(#compdef tessera
# zsh completion for tessera, made by 'tessera completion zsh'
_tessera() {{
  local -a verbs=(
{})
  if (( CURRENT == 2 )); then
    _describe 'verb' verbs
    return
  fi
  local verb="$words[2]"
  shift words
  (( CURRENT-- ))
  if (( CURRENT > 2 )); then
    case "$verb $words[2]" in
    {})
      verb="$verb $words[2]"
      shift words
      (( CURRENT-- ))
      ;;
    esac
  fi
  case "$verb" in
{}  esac
}}
if [ "$funcstack[1]" = "_tessera" ]; then _tessera "$@"; else compdef _tessera tessera; fi
)",
                     names, pattern_of(verb_names(verbs, true)), cases);
}

// The condition under which fish offers a verb's options: the verb's words are present, and none of another verb.
std::string fish_condition(const VerbDescription& verb, const Verbs& verbs) {
  if (verb.name.empty()) return "__fish_use_subcommand";
  const std::size_t space = verb.name.find(' ');
  const std::string outer = verb.name.substr(0, space);
  if (space != std::string::npos)
    return shell_quoted(fmt::format("__fish_seen_subcommand_from {}; and __fish_seen_subcommand_from {}", outer,
                                    verb.name.substr(space + 1)));
  std::string others;
  for (const std::string& inner : verb_names(verbs, true)) {
    const std::size_t end = inner.find(' ');
    if (inner.substr(0, end) == outer) others += " " + inner.substr(end + 1);
    if (inner.substr(end + 1) == outer) others += " " + inner.substr(0, end);
  }
  const std::string condition = "__fish_seen_subcommand_from " + outer;
  return shell_quoted(others.empty() ? condition : condition + "; and not __fish_seen_subcommand_from" + others);
}

std::string fish_script(const Verbs& verbs) {
  std::string script = "# fish completion for tessera, made by 'tessera completion fish'\n";
  for (const VerbDescription& verb : verbs) {
    if (!verb.name.empty() && !is_inner(verb))
      script += fmt::format("complete -c tessera -n __fish_use_subcommand -f -a {} -d {}\n", verb.name,
                            shell_quoted(plain(verb.text)));
    const std::string where = fish_condition(verb, verbs);
    for (const OptionDescription& option : verb.options) {
      std::string line = "complete -c tessera -n " + where;
      for (const std::string& name : option.names) {
        if (!option.positional) line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (option.takes_value() && !option.positional) line += " -r";
      if (!option.values.empty())
        line += fmt::format(" -f -a {}", shell_quoted(fmt::format("{}", fmt::join(option.values, " "))));
      else if (option.positional) continue;  // completed by file names, as everywhere
      script += line + " -d " + shell_quoted(plain(option.text)) + "\n";
    }
  }
  return script;
}

}  // namespace

void add_completion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  CLI::App* verb =
      app.add_subcommand("completion", "Print a script by which a shell completes verbs, options and their values");
  verb->add_option("SHELL", *shell, "Which shell")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  verb->footer(
      "An installed Tessera brings the scripts along where shells look for them.\n\nExamples:\n"
      "  source <(tessera completion bash)\n"
      "  tessera completion fish > ~/.config/fish/completions/tessera.fish");
  verb->callback([shell, &app] {
    const Verbs verbs = describe_command_line(app);
    fmt::print("{}", *shell == "bash" ? bash_script(verbs) : *shell == "zsh" ? zsh_script(verbs) : fish_script(verbs));
  });
}

}  // namespace tessera::apps
