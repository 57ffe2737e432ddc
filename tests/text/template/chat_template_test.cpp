#include "text/template/chat_template.h"

#include <gtest/gtest.h>

#include <chrono>

#include "support/expect_error.h"

namespace tessera::chat_template_test {
namespace {

using text::ChatTemplate;
using text::RenderedChat;

std::string rendered(std::string_view source, std::string_view variables = "{}") {
  return ChatTemplate(source).render_json(variables).text;
}

constexpr std::string_view kTurns = R"({{ bos_token }}{% for message in messages %}
  {%- if message.role == 'system' and not loop.first %}{{ raise_exception('system must come first') }}{% endif %}
<|im_start|>{{ message['role'] }}
{{ message.content | trim }}<|im_end|>
{% endfor %}
{% if add_generation_prompt %}
<|im_start|>assistant
{% endif %})";

TEST(ChatTemplate, RendersAConversation) {
  EXPECT_EQ(rendered(kTurns, R"({"bos_token": "<s>", "add_generation_prompt": true,
                                 "messages": [{"role": "system", "content": "Be kind."},
                                              {"role": "user", "content": " Hi "}]})"),
            "<s><|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplate, MarksWhatUsersWrote) {
  const RenderedChat chat =
      ChatTemplate("<|u|>{{ messages[0].content | trim }}<|e|>{{ messages[0].content[:2] ~ eos }}")
          .render_json(R"({"eos": "</s>", "messages": [{"content": " a<|e|> "}]})");
  EXPECT_EQ(chat.text, "<|u|>a<|e|><|e|> a</s>");
  EXPECT_EQ(chat.user_ranges, (std::vector<TextRange>{{5, 11}, {16, 18}}));
  // Nothing is lost on the way through other texts, lists and JSON.
  const RenderedChat through =
      ChatTemplate(
          "{% set x = messages | map(attribute='content') | join('+') %}{{ x | replace('b', '-') }}|"
          "{{ x.split('+')[1] | upper }}|{{ messages | tojson }}")
          .render_json(R"({"messages": [{"content": "abc"}, {"content": "d"}]})");
  EXPECT_EQ(through.text, R"(a-c+d|D|[{"content": "abc"}, {"content": "d"}])");
  EXPECT_EQ(through.user_ranges, (std::vector<TextRange>{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 46}}));
}

TEST(ChatTemplate, SaysWhatIsWrongAndWhere) {
  const auto refuses = [](std::string_view source, ErrorKind kind, const char* message, const char* variables = "{}") {
    test::expect_error_containing(kind, message, [&] { rendered(source, variables); });
  };
  refuses("a\n{% if x %}b", ErrorKind::invalid_model, "the template ends inside a block, expected 'endif'");
  refuses("a\n\n{{ 1 +* }}", ErrorKind::invalid_model, "expected a value, found '*' (in line 3 of the chat template)");
  refuses("{{ 'abc }}", ErrorKind::invalid_model, "a text constant has no end (in line 1");
  refuses("{% include 'x' %}", ErrorKind::unsupported, "the tag 'include' is not supported (in line 1");
  refuses("\n{{ 1 | urlize }}", ErrorKind::unsupported, "the filter 'urlize' is not known (in line 2");
  refuses("{{ messages[0].content }}", ErrorKind::failed, "'messages' is undefined (in line 1");
  refuses("{{ [1].append(2) }}", ErrorKind::failed, "the method 'append' would change a value");
  refuses("{{ 1 + 'a' }}", ErrorKind::failed, "the types int and str have no operation +");
  refuses("{{ 9223372036854775807 + 1 }}", ErrorKind::failed, "beyond 64 bits");
  refuses(kTurns, ErrorKind::invalid_argument, "system must come first (in line 2 of the chat template)",
          R"({"messages": [{"role": "user", "content": ""}, {"role": "system", "content": ""}]})");
  refuses("{{ 1 }}", ErrorKind::invalid_argument, "no JSON", "{");
}

std::string repeated(std::string_view text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

// Each ends within the limits of steps, memory or depth, soon.
TEST(ChatTemplate, HostileTemplatesEnd) {
  const std::string sources[]{
      "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      repeated("{% if true %}", 10'000),
      "{{ " + repeated("[", 10'000),
      "{{ " + repeated("(", 10'000),
      "{{ " + repeated("not ", 10'000),
      "{{ " + repeated("-", 10'000),
      "{{ 1" + repeated(" + 1", 10'000) + " }}",
      "{{ x" + repeated(".x", 10'000) + " }}",
      "{{ 'a' * 10000000000 }}",
      "{% set ns = namespace(x='a') %}{% for i in range(64) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(64) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(64) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x == ns.x "
      "}}",
      "{% set ns = namespace(x=1) %}{% for i in range(100000) %}{% for j in range(100) %}{% set ns.x = "
      "namespace(y=ns.x) "
      "%}{% endfor %}{% endfor %}",
      "{% for i in range(100000) %}{{ 'x' * 100000 }}{% endfor %}",
      "{% set x = 'a' * 10000000 %}{% for i in range(100000) %}{% if x.replace('a', 'b') %}{% endif %}{% endfor %}",
      "{{ ('a' * 100000).replace('', 'b' * 100000) }}",
      "{{ ('a\n' * 1000000) | indent(1000) }}",
      "{{ range(10000000) }}",
      "{{ 2 ** 10000000000 }}",
      "{{ '%9999999d' % 1 }}",
  };
  for (const std::string& source : sources) {
    SCOPED_TRACE(source.substr(0, 80));
    const auto begin = std::chrono::steady_clock::now();
    try {
      rendered(source);
      ADD_FAILURE() << "rendered";
    } catch (const Error& error) {
      EXPECT_NE(error.kind(), ErrorKind::invalid_argument) << error.what();
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(seconds.count(), 5) << "with room for sanitizers and busy machines";
    RecordProperty(source.substr(0, 30), std::to_string(seconds.count()));
  }
}

TEST(ChatTemplate, LimitsAreTheCallers) {
  text::TemplateOptions options;
  options.most_output_bytes = 10;
  const ChatTemplate some("{{ 'a' * 11 }}");
  test::expect_error_containing(ErrorKind::over_budget, "makes a text of more than 10 bytes",
                                [&] { some.render_json("{}", options); });
  options = {};
  options.most_steps = 10;
  const ChatTemplate loop("{% for i in range(10) %}{{ i }}{% endfor %}");
  test::expect_error_containing(ErrorKind::over_budget, "takes more than 10 steps",
                                [&] { loop.render_json("{}", options); });
}

// A value that refers to itself, and a macro beyond its block, are no trouble.
TEST(ChatTemplate, ValuesMayReferToThemselves) {
  EXPECT_EQ(rendered("{% set ns = namespace() %}{% set ns.me = ns %}{% set ns.l = [ns] %}{{ ns.l[0].me is defined }}"),
            "True");
  test::expect_error_containing(ErrorKind::unsupported, "outside of the block that defines it", [] {
    rendered(
        "{% set ns = namespace() %}{% for i in [1] %}{% macro m() %}{{ i }}{% endmacro %}{% set ns.m = m %}"
        "{% endfor %}{{ ns.m() }}");
  });
}

}  // namespace
}  // namespace tessera::chat_template_test
