// tessera chat: a conversation with a language model, at a terminal or through a pipe.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "common.h"
#include "generation_options.h"
#include "io/file.h"
#include "option_values.h"
#include "report/values/json_text.h"
#include "signals.h"
#include "streams.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

constexpr std::int64_t kMostTemplateBytes = std::int64_t{1} << 20;
constexpr std::size_t kMostMessageBytes = std::size_t{64} << 20;
constexpr const char* kCommands =
    "/reset forgets the conversation, /stats shows or hides tokens and speed, /help prints this, /exit (or Ctrl-D) "
    "ends.\n"
    "Ctrl-C stops an answer. A line that ends with \\ goes on in the next one.\n";

struct ChatVerb {
  GenerationOptions generation;
  std::string system, template_file;
  bool json = false;
};

class Conversation {
 public:
  Conversation(const ChatVerb& verb, const LanguageModel& model)
      : verb_(verb), session_(model), options_(generate_options(verb.generation)), stats_(verb.generation.stats) {
    reset();
  }

  void reset() {
    messages_.clear();
    if (!verb_.system.empty()) messages_.push_back({"system", verb_.system});
  }
  // Returns whether they are shown from now on.
  bool switch_stats() { return stats_ = !stats_; }

  // Prints the answer to a message, and keeps both; an answer that was interrupted is kept as far as it came. An error
  // leaves the conversation as it was.
  void answer(const std::string& message) {
    messages_.push_back({"user", message});
    try {
      const std::string text = print_answer_to_messages();
      messages_.push_back({"assistant", text});
    } catch (...) {
      messages_.pop_back();
      throw;
    }
  }

 private:
  std::string print_answer_to_messages();
  void print_json(const GeneratedAnswer& answer, const GenerationStats& stats) const;

  const ChatVerb& verb_;
  LanguageSession session_;
  GenerateOptions options_;
  bool stats_;
  std::vector<ChatMessage> messages_;
};

std::string Conversation::print_answer_to_messages() {
  const AnswerStop stop;
  GenerateOptions options = options_;
  options.cancellation = &stop.cancellation();
  if (!verb_.json)
    options.on_text = [](const GeneratedText& piece) {
      print_answer(piece.text);
      return std::ferror(stdout) == 0;  // nobody reads the rest
    };
  options.on_prompt = [](std::int64_t done, std::int64_t total) {
    show_progress("reading the conversation", static_cast<double>(done) / static_cast<double>(total));
  };
  GenerationStats stats;
  const GeneratedAnswer answer = session_.chat(messages_, options, &stats);
  if (verb_.json) print_json(answer, stats);
  else fmt::print("\n");
  finish_output();
  if (answer.finish == FinishReason::cancelled) fmt::print(stderr, "(stopped)\n");
  if (stats_) print_stats(stats);
  return answer.text;
}

void Conversation::print_json(const GeneratedAnswer& answer, const GenerationStats& stats) const {
  const nlohmann::json line = {{"text", answer.text},
                               {"finish_reason", to_string(answer.finish)},
                               {"prompt_tokens", answer.prompt_tokens},
                               {"cached_tokens", stats.cached_tokens},
                               {"answer_tokens", answer.tokens.size()},
                               {"prompt_seconds", static_cast<double>(stats.prompt_ns) * 1e-9},
                               {"answer_seconds", static_cast<double>(stats.generate_ns) * 1e-9}};
  fmt::print("{}\n", report::json_text(line));
}

// Reads a line without its end. Returns false at the end of the input.
bool read_line(std::string& line) {
  line.clear();
  int next = std::cin.get();
  const bool found = next != std::char_traits<char>::eof();
  for (; next != std::char_traits<char>::eof() && next != '\n'; next = std::cin.get()) {
    require(line.size() < kMostMessageBytes, ErrorKind::over_budget, "a line on standard input has more than {} MiB",
            kMostMessageBytes >> 20);
    line += static_cast<char>(next);
  }
  if (line.ends_with('\r')) line.pop_back();
  return found;
}

// Reads a message: a line, at a terminal with the lines that it goes on in. Returns false at the end of the input.
bool read_message(std::string& message, bool terminal) {
  message.clear();
  for (bool more = true; more;) {
    if (terminal) fmt::print(stderr, "{}", message.empty() ? "> " : "… ");
    std::string line;
    if (!read_line(line)) return !message.empty();
    more = terminal && line.ends_with('\\');
    if (more) line.back() = '\n';
    message += line;
  }
  return true;
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

// Whether the line is one word behind a slash, which is a command or a mistyped one. Paths and sentences are messages.
bool is_command(std::string_view line) {
  return line.starts_with('/') && std::ranges::all_of(line.substr(1), [](char c) { return c >= 'a' && c <= 'z'; });
}

// Returns false when the command ends the conversation.
bool obey(std::string_view command, Conversation& conversation) {
  if (command == "/exit") return false;
  if (command == "/reset") conversation.reset();
  else if (command == "/stats") fmt::print(stderr, "(stats {})\n", conversation.switch_stats() ? "on" : "off");
  else if (command == "/help") fmt::print(stderr, "{}", kCommands);
  else print_error(fmt::format("there is no command {}\n{}", base::printable(command), kCommands));
  return true;
}

void talk_at_terminal(Conversation& conversation) {
  fmt::print(stderr, "{}", kCommands);
  std::string message;
  while (read_message(message, true)) {
    if (is_command(message)) {
      if (!obey(message, conversation)) return;
    } else if (!is_blank(message)) {
      try {
        conversation.answer(message);
      } catch (const Error& error) {
        // The context is full, or the template refuses the message: the user may say something else.
        if (error.kind() != ErrorKind::invalid_argument && error.kind() != ErrorKind::over_budget) throw;
        print_error(fmt::format("{}; /reset begins a new conversation", error.what()));
      }
    }
  }
  fmt::print(stderr, "\n");
}

void run_chat(ChatVerb& verb) {
  if (!verb.template_file.empty()) {
    const std::vector<std::byte> bytes = io::read_file(verb.template_file, kMostTemplateBytes);
    verb.generation.load.chat_template.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  const LanguageModel model = load_language_model(verb.generation);
  require(!model.chat_template().empty(), ErrorKind::unsupported,
          "'{}' has no chat template, which says how a model reads conversations; give one by --chat-template FILE, or "
          "continue texts with 'tessera generate'",
          verb.generation.model);
  Conversation conversation(verb, model);
  if (isatty(STDIN_FILENO) != 0) return talk_at_terminal(conversation);
  for (std::string message; read_message(message, false);)
    if (!is_blank(message)) conversation.answer(message);
}

}  // namespace

void add_chat(CLI::App& app) {
  auto options = std::make_shared<ChatVerb>();
  CLI::App* verb = app.add_subcommand("chat", "Talk to a language model");
  add_language_model_options(*verb, options->generation);
  verb->add_option("--system", options->system, "What the model is told before the conversation");
  verb->add_option("--chat-template", options->template_file,
                   "A file with a chat template in Jinja, in place of the model's own");
  add_answer_length_option(*verb, options->generation);
  add_sampling_options(*verb, options->generation);
  verb->add_flag("--json", options->json, "Print each answer with its tokens and times as JSON in one line");
  verb->footer(
      "Each line is a message, and the conversation goes on until the end of the input. What messages say is text: a\n"
      "special token that they spell out is not one. Ctrl-C stops the answer and keeps what came of it; while nothing\n"
      "is answered it ends the program. At a terminal, a line that ends with \\ goes on in the next one, and there "
      "are\n"
      "commands: /reset forgets the conversation, /stats shows or hides tokens and speed, /help, /exit (or Ctrl-D).\n"
      "\nExamples:\n"
      "  tessera chat model.gguf --system 'You answer in one sentence.'\n"
      "  echo 'Name three rivers.' | tessera chat model.gguf --temperature 0\n"
      "  tessera chat model.gguf --json < questions.txt");
  verb->callback([options] { run_chat(*options); });
}

}  // namespace tessera::apps
