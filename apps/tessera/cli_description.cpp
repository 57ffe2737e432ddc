#include "cli_description.h"

#include "option_values.h"

namespace tessera::apps {
namespace {

OptionDescription describe_option(const CLI::Option& option) {
  OptionDescription described{
      {}, option.get_description(), {}, option.get_default_str(), suggested_values(option), option.get_positional()};
  for (const std::string& name : option.get_snames()) described.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) described.names.push_back("--" + name);
  if (option.get_positional()) described.names = {option.get_name(true)};
  // Only options that expect a value have a type: the first word in "INT:0..1024".
  if (option.get_items_expected_max() > 0) {
    const std::string type = option.get_type_name();
    described.type = type.substr(0, type.find_first_of(": "));
    if (described.type.empty()) described.type = "VALUE";
  }
  return described;
}

VerbDescription describe_verb(const CLI::App& app, const std::string& name) {
  VerbDescription verb{name, app.get_description(), app.get_footer(), {}};
  for (const CLI::Option* option : app.get_options()) verb.options.push_back(describe_option(*option));
  return verb;
}

void describe_verbs(const CLI::App& app, const std::string& prefix, std::vector<VerbDescription>& verbs) {
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    const std::string name = prefix + verb->get_name();
    const std::size_t place = verbs.size();
    verbs.push_back(describe_verb(*verb, name));
    describe_verbs(*verb, name + " ", verbs);
    OptionDescription inner{{"VERB"}, "What to do", "TEXT", {}, {}, true};
    for (const CLI::App* each : verb->get_subcommands([](const CLI::App*) { return true; }))
      inner.values.push_back(each->get_name());
    if (!inner.values.empty()) verbs[place].options.push_back(inner);
  }
}

}  // namespace

std::vector<VerbDescription> describe_command_line(const CLI::App& app) {
  std::vector<VerbDescription> verbs{describe_verb(app, "")};
  describe_verbs(app, "", verbs);
  return verbs;
}

}  // namespace tessera::apps
