// tessera._core.LanguageModel, GenerateOptions and TextStream.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "gil.h"
#include "tessera/generate.h"
#include "text_stream.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tessera::python {
namespace {

using Tokens = std::vector<std::int64_t>;

// A model with the conversation that it answered last.
class PyLanguageModel {
 public:
  explicit PyLanguageModel(LanguageModel given) : model(std::move(given)), session_(model) {}

  // The answer to a conversation; the one that was answered last goes on in the cache. Thread-safe: while one thread
  // uses the kept conversation, others compute theirs from the beginning.
  GeneratedAnswer chat(const Tokens& prompt, const GenerateOptions& options, GenerationStats& stats) {
    const std::unique_lock lock(session_turn_, std::try_to_lock);
    return lock.owns_lock() ? session_.generate_tokens(prompt, options, &stats)
                            : model.generate_tokens({&prompt, 1}, options, &stats)[0];
  }

  LanguageModel model;

 private:
  std::mutex session_turn_;
  LanguageSession session_;
};

using SharedModel = std::shared_ptr<PyLanguageModel>;
using Messages = std::vector<std::pair<std::string, std::string>>;  // role and content

SharedModel load(nb::handle path, const LanguageModelOptions& options) {
  const std::string file = path_from_python(path);
  SharedModel made;
  {
    const WithoutGil released;
    made = std::make_shared<PyLanguageModel>(LanguageModel::load(file, options));
  }
  pass_messages();
  return made;
}

nb::dict answer_dict(const GeneratedAnswer& answer, const GenerationStats& stats, bool with_logprobs) {
  nb::dict result;
  nb::list tokens, logprobs, top;
  for (const GeneratedToken& token : answer.tokens) {
    tokens.append(token.token);
    if (!with_logprobs) continue;
    logprobs.append(token.logprob);
    nb::dict listed;
    for (const TokenLogprob& each : token.top) listed[nb::int_(each.token)] = each.logprob;
    top.append(listed);
  }
  result["text"] = python_text(answer.text);
  result["tokens"] = tokens;
  result["finish_reason"] = python_text(to_string(answer.finish));
  result["prompt_tokens"] = answer.prompt_tokens;
  result["cached_tokens"] = stats.cached_tokens;
  result["prompt_seconds"] = static_cast<double>(stats.prompt_ns) * 1e-9;
  result["answer_seconds"] = static_cast<double>(stats.generate_ns) * 1e-9;
  result["logprobs"] = with_logprobs ? nb::object(logprobs) : nb::none();
  result["top_logprobs"] = with_logprobs ? nb::object(top) : nb::none();
  return result;
}

nb::list generate(PyLanguageModel& self, const std::vector<Tokens>& prompts, const GenerateOptions& options,
                  const std::shared_ptr<Cancellation>& given) {
  GenerationStats stats;
  const std::vector<GeneratedAnswer> answers = interruptible(
      [&](const Cancellation* cancellation) {
        GenerateOptions own = options;
        own.cancellation = cancellation;
        return self.model.generate_tokens(prompts, own, &stats);
      },
      given.get());
  pass_messages();
  nb::list result;
  for (const GeneratedAnswer& answer : answers) result.append(answer_dict(answer, stats, options.logprobs >= 0));
  return result;
}

nb::dict chat(PyLanguageModel& self, const Tokens& prompt, const GenerateOptions& options,
              const std::shared_ptr<Cancellation>& given) {
  GenerationStats stats;
  const GeneratedAnswer answer = interruptible(
      [&](const Cancellation* cancellation) {
        GenerateOptions own = options;
        own.cancellation = cancellation;
        return self.chat(prompt, own, stats);
      },
      given.get());
  pass_messages();
  return answer_dict(answer, stats, options.logprobs >= 0);
}

// A stream with what it takes to describe its answer.
struct PyTextStream {
  PyTextStream(const SharedModel& model, Tokens prompt, const GenerateOptions& options,
               std::shared_ptr<Cancellation> given, bool is_chat)
      : with_logprobs(options.logprobs >= 0),
        stream(
            [model, prompt = std::move(prompt), is_chat](const GenerateOptions& own, GenerationStats& stats) {
              return is_chat ? model->chat(prompt, own, stats)
                             : model->model.generate_tokens({&prompt, 1}, own, &stats)[0];
            },
            options, std::move(given)) {}

  bool with_logprobs;
  TextStream stream;
};

Tokens encode_chat(const PyLanguageModel& self, const Messages& given) {
  std::vector<ChatMessage> messages;
  for (const auto& [role, content] : given) messages.push_back({role, content});
  const WithoutGil released;
  return self.model.encode_chat(messages);
}

template <typename T>
void bind_sampling(nb::class_<GenerateOptions>& options, const char* name, T SamplingOptions::* member) {
  options.def_prop_rw(
      name, [member](const GenerateOptions& self) { return self.sampling.*member; },
      [member](GenerateOptions& self, const T& value) { self.sampling.*member = value; });
}

void bind_options(nb::module_& module) {
  nb::class_<LanguageModelOptions>(module, "LanguageModelOptions")
      .def(nb::init<>())
      .def_rw("threads", &LanguageModelOptions::threads)
      .def_rw("exact", &LanguageModelOptions::exact)
      .def_rw("cache", &LanguageModelOptions::cache)
      .def_rw("context", &LanguageModelOptions::context)
      .def_rw("cache_tokens", &LanguageModelOptions::cache_tokens)
      .def_rw("memory_limit_bytes", &LanguageModelOptions::memory_limit_bytes)
      .def_rw("chat_template", &LanguageModelOptions::chat_template);
  nb::class_<GenerateOptions> options(module, "GenerateOptions");
  options.def(nb::init<>())
      .def_rw("max_tokens", &GenerateOptions::max_tokens)
      .def_rw("min_tokens", &GenerateOptions::min_tokens)
      .def_rw("ignore_eos", &GenerateOptions::ignore_eos)
      .def_rw("stop", &GenerateOptions::stop)
      .def_rw("logprobs", &GenerateOptions::logprobs);
  bind_sampling(options, "logit_bias", &SamplingOptions::logit_bias);
  bind_sampling(options, "repetition_penalty", &SamplingOptions::repetition_penalty);
  bind_sampling(options, "repetition_window", &SamplingOptions::repetition_window);
  bind_sampling(options, "presence_penalty", &SamplingOptions::presence_penalty);
  bind_sampling(options, "frequency_penalty", &SamplingOptions::frequency_penalty);
  bind_sampling(options, "temperature", &SamplingOptions::temperature);
  bind_sampling(options, "top_k", &SamplingOptions::top_k);
  bind_sampling(options, "typical_p", &SamplingOptions::typical_p);
  bind_sampling(options, "top_p", &SamplingOptions::top_p);
  bind_sampling(options, "min_p", &SamplingOptions::min_p);
  bind_sampling(options, "mirostat", &SamplingOptions::mirostat);
  bind_sampling(options, "mirostat_tau", &SamplingOptions::mirostat_tau);
  bind_sampling(options, "mirostat_eta", &SamplingOptions::mirostat_eta);
  bind_sampling(options, "seed", &SamplingOptions::seed);
}

void bind_stream(nb::module_& module) {
  nb::class_<PyTextStream>(module, "TextStream")
      .def(nb::init<const SharedModel&, Tokens, const GenerateOptions&, std::shared_ptr<Cancellation>, bool>(),
           "model"_a, "prompt"_a, "options"_a, "cancellation"_a.none(), "chat"_a)
      .def("next",
           [](PyTextStream& self) -> nb::object {
             const std::optional<std::string> piece = self.stream.next();
             return piece ? python_text(*piece) : nb::none();
           })
      .def("close", [](PyTextStream& self) { self.stream.close(); })
      .def("answer", [](PyTextStream& self) -> nb::object {
        const std::optional<GeneratedAnswer>& answer = self.stream.answer();
        return answer ? nb::object(answer_dict(*answer, self.stream.stats(), self.with_logprobs)) : nb::none();
      });
}

}  // namespace

void bind_language(nb::module_& module) {
  bind_options(module);
  nb::class_<PyLanguageModel>(module, "LanguageModel")
      .def_static("load", &load, "path"_a, "options"_a)
      .def("generate", &generate, "prompts"_a, "options"_a, "cancellation"_a.none())
      .def("chat", &chat, "prompt"_a, "options"_a, "cancellation"_a.none())
      .def(
          "encode",
          [](const PyLanguageModel& self, const std::string& text, bool special) {
            const WithoutGil released;
            TokenizerOptions how;
            how.recognize_special = special;
            return self.model.tokenizer().encode_ids(text, how);
          },
          "text"_a, "special"_a)
      .def("encode_chat", &encode_chat, "messages"_a)
      .def(
          "decode",
          [](const PyLanguageModel& self, const Tokens& tokens, bool special) {
            return python_text(self.model.tokenizer().decode(tokens, !special));
          },
          "tokens"_a, "special"_a)
      .def(
          "token",
          [](const PyLanguageModel& self, std::int64_t number) {
            return python_text(self.model.tokenizer().token_of(number));
          },
          "number"_a)
      .def(
          "logits",
          [](const PyLanguageModel& self, const Tokens& prompt) {
            const std::vector<float> logits = [&] {
              const WithoutGil released;
              return self.model.logits(prompt);
            }();
            Tensor tensor(DType::f32, {static_cast<std::int64_t>(logits.size())});
            std::copy(logits.begin(), logits.end(), tensor.mutable_data<float>());
            return numpy_from_tensor(tensor);
          },
          "prompt"_a)
      .def_prop_ro("architecture", [](const PyLanguageModel& self) { return python_text(self.model.architecture()); })
      .def_prop_ro("chat_template", [](const PyLanguageModel& self) { return python_text(self.model.chat_template()); })
      .def_prop_ro("vocabulary_size", [](const PyLanguageModel& self) { return self.model.vocabulary_size(); })
      .def_prop_ro("context", [](const PyLanguageModel& self) { return self.model.context(); });
  bind_stream(module);
}

}  // namespace tessera::python
