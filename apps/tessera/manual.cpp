// tessera manual: prints the manual page.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli_description.h"
#include "tessera/version.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

// Escapes text for man(7), where a backslash starts an escape, a period or quote at the beginning of a line starts a
// request, and a hyphen needs an escape to stay a minus.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char character : text) {
    const bool at_begin = out.empty() || out.back() == '\n';
    if (at_begin && (character == '.' || character == '\'')) out += "\\&";
    if (character == '\\') out += "\\e";
    else if (character == '-') out += "\\-";
    else out += character;
  }
  return out;
}

std::string option_text(const OptionDescription& option) {
  const std::string value =
      option.takes_value() && !option.positional ? fmt::format(" \\fI{}\\fR", escaped(option.type)) : "";
  std::string text = fmt::format(".TP\n\\fB{}\\fR{}\n{}.", escaped(fmt::format("{}", fmt::join(option.names, ", "))),
                                 value, escaped(option.text));
  if (!option.values.empty() && option.values.size() <= 8)
    text += escaped(fmt::format(" One of {}.", fmt::join(option.values, ", ")));
  if (!option.default_value.empty()) text += escaped(fmt::format(" Default: {}.", option.default_value));
  return text + "\n";
}

std::string footer_text(const std::string& footer) {
  return footer.empty() ? "" : ".PP\n.nf\n" + escaped(footer) + "\n.fi\n";
}

std::string verb_text(const VerbDescription& verb) {
  std::string text = verb.name.empty() ? ".SH OPTIONS\n"
                                       : fmt::format(".SS tessera {}\n{}.\n", escaped(verb.name), escaped(verb.text));
  for (const OptionDescription& option : verb.options) text += option_text(option);
  return text + (verb.name.empty() ? "" : footer_text(verb.footer));
}

std::string manual_page(const CLI::App& app) {
  const std::vector<VerbDescription> verbs = describe_command_line(app);
  std::string page = fmt::format(
      ".TH TESSERA 1 \"\" \"Tessera {}\" \"User Commands\"\n.SH NAME\ntessera \\- run, measure, explain and optimise "
      "neural networks\n",
      TESSERA_VERSION);
  page += ".SH SYNOPSIS\n\\fBtessera\\fR \\fIVERB\\fR [\\fIOPTIONS\\fR]\n.SH DESCRIPTION\n" +
          escaped(verbs.front().text) + "\n";
  page += verb_text(verbs.front()) + ".SH VERBS\n";
  for (std::size_t i = 1; i < verbs.size(); ++i) page += verb_text(verbs[i]);
  return page + ".SH NOTES\n.nf\n" + escaped(verbs.front().footer) + "\n.fi\n";
}

}  // namespace

void add_manual(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("manual", "Print the manual page, for man");
  verb->footer("Example:\n  tessera manual | man -l -");
  verb->callback([&app] { fmt::print("{}", manual_page(app)); });
}

}  // namespace tessera::apps
