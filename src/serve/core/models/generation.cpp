#include "serve/core/models/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <random>

#include "base/error.h"
#include "base/text.h"

namespace tessera::serve {
namespace {

constexpr std::int64_t kUsualSteps = 256, kMostSteps = 65'536;  // of a model that feeds outputs back

const TensorInfo* find(const std::vector<TensorInfo>& list, std::string_view name) {
  const auto found = std::ranges::find(list, name, &TensorInfo::name);
  return found != list.end() ? &*found : nullptr;
}

// A number for a sequence that nobody else has named: 31 bits, so that control inputs of any integer type hold it.
std::uint64_t new_sequence_number() {
  static std::atomic<std::uint32_t> next{std::random_device()()};
  return (next.fetch_add(1) & 0x7FFF'FFFFu) | 1u << 30;
}

template <typename T>
bool equals(T value, const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && static_cast<double>(value) == number;
}

bool equals(const Tensor& tensor, const std::string& text) {
  switch (tensor.dtype()) {
    case DType::boolean:
      return text == (tensor.values<bool>()[0] ? "true" : "false");
    case DType::u8:
      return equals(tensor.values<std::uint8_t>()[0], text);
    case DType::i8:
      return equals(tensor.values<std::int8_t>()[0], text);
    case DType::u16:
      return equals(tensor.values<std::uint16_t>()[0], text);
    case DType::i16:
      return equals(tensor.values<std::int16_t>()[0], text);
    case DType::u32:
      return equals(tensor.values<std::uint32_t>()[0], text);
    case DType::i32:
      return equals(tensor.values<std::int32_t>()[0], text);
    case DType::u64:
      return equals(tensor.values<std::uint64_t>()[0], text);
    case DType::i64:
      return equals(tensor.values<std::int64_t>()[0], text);
    case DType::f32:
      return equals(tensor.values<float>()[0], text);
    case DType::f64:
      return equals(tensor.values<double>()[0], text);
    case DType::string:
      return tensor.values<std::string>()[0] == text;
    default:
      return false;
  }
}

// A copy of element `at` of the first dimension.
Tensor part_of(const Tensor& whole, std::int64_t at) {
  Tensor part(whole.dtype(), Shape(whole.shape().begin() + 1, whole.shape().end()));
  const std::int64_t elements = part.elements();
  if (part.dtype() == DType::string) {
    std::ranges::copy_n(whole.values<std::string>().begin() + at * elements, elements,
                        part.mutable_data<std::string>());
  } else if (part.bytes() > 0) {
    std::memcpy(part.mutable_raw(), static_cast<const std::byte*>(whole.raw()) + at * part.bytes(),
                static_cast<std::size_t>(part.bytes()));
  }
  return part;
}

}  // namespace

GenerationRules generation_rules(const ServableInfo& info) {
  GenerationRules rules;
  const std::string where = fmt::format("[generate] of model '{}'", info.name);
  std::optional<std::int64_t> steps;
  for (const auto& [key, value] : info.settings.generate) {
    if (key == "steps") {
      std::int64_t number = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
      require(error == std::errc() && end == value.data() + value.size() && number >= 1 && number <= kMostSteps,
              ErrorKind::invalid_argument, "{} has steps = '{}', expected a whole number from 1 to {}", where,
              base::shown(value), kMostSteps);
      steps = number;
    } else if (key.starts_with("feed.")) {
      const std::string name = key.substr(5);
      const TensorInfo *const input = find(info.inputs, name), *const output = find(info.outputs, value);
      require(input != nullptr, ErrorKind::invalid_argument, "{} feeds '{}', which is no input of the model", where,
              base::shown(name));
      require(output != nullptr, ErrorKind::invalid_argument,
              "{} feeds input '{}' from '{}', which is no output of the model", where, base::shown(name),
              base::shown(value));
      require(input->dtype == output->dtype, ErrorKind::invalid_argument,
              "{} feeds input '{}' ({}) from output '{}' ({}): they must be of one type", where, base::shown(name),
              name_of(input->dtype), base::shown(value), name_of(output->dtype));
      rules.feeds[name] = value;
    } else if (key.starts_with("stop.")) {
      const std::string name = key.substr(5);
      require(find(info.outputs, name) != nullptr, ErrorKind::invalid_argument,
              "{} stops by '{}', which is no output of the model", where, base::shown(name));
      rules.stops[name] = value;
    } else {
      fail(ErrorKind::invalid_argument, "{} has the key '{}', expected steps, feed or stop", where, base::shown(key));
    }
  }
  require(!rules.feeds.empty() || info.settings.generate.empty(), ErrorKind::invalid_argument,
          "{} feeds no output back to an input: without [generate.feed] there is one step", where);
  if (!rules.feeds.empty()) rules.most_steps = steps.value_or(kUsualSteps);
  return rules;
}

std::vector<GenerateField> generate_fields(const ServableInfo& info, const GenerationRules& rules) {
  std::vector<GenerateField> fields;
  for (const TensorInfo& input : info.inputs) fields.push_back({input, rules.feeds.contains(input.name)});
  return fields;
}

Generation::Generation(GenerateRequest request, GenerationRules rules, const ServableInfo& info,
                       std::shared_ptr<Call> call, std::shared_ptr<AnswerSink> sink, Actions actions)
    : request_(std::move(request)),
      rules_(std::move(rules)),
      inputs_(info.inputs),
      has_states_(info.settings.config.has_sequence_batching()),
      call_(std::move(call)),
      sink_(std::move(sink)),
      actions_(std::move(actions)) {}

void Generation::start() {
  most_steps_ = request_.most_steps > 0 ? request_.most_steps : rules_.most_steps;
  if (most_steps_ > rules_.most_steps)
    throw Failure(Reason::bad_request,
                  fmt::format("'max_steps' is {}, but the model takes {} at most", most_steps_, rules_.most_steps));
  bool has_prompt = false;
  for (const InferenceInput& input : request_.request.inputs) {
    if (!rules_.feeds.contains(input.name)) continue;
    const std::int64_t steps = input.shape[0];
    if (std::exchange(has_prompt, true) && steps != prompt_steps_)
      throw Failure(Reason::bad_request, fmt::format("input '{}' has {} steps of the prompt, and another input has {}",
                                                     base::shown(input.name), steps, prompt_steps_));
    prompt_steps_ = steps;
  }
  if (prompt_steps_ > kMostSteps)
    throw Failure(Reason::too_large,
                  fmt::format("the prompt has {} steps, at most {} are taken", prompt_steps_, kMostSteps));
  SequencePart& sequence = request_.request.sequence;
  owns_sequence_ = has_states_ && sequence.id.is_none();
  if (owns_sequence_) sequence = {{new_sequence_number(), {}}, true, true};
  go_on();
}

void Generation::cancel() {
  const std::lock_guard lock(mutex_);
  is_cancelled_ = true;
  if (step_) step_->cancel();
}

// A step may be done before its submission returns. Steps are submitted by a loop, so that the stack does not grow with
// their number.
void Generation::go_on() {
  if (pending_.fetch_add(1) > 0) return;
  do {
    submit_step();
  } while (pending_.fetch_sub(1) > 1);
}

InferenceRequest Generation::next_request() {
  InferenceRequest step = request_.request;
  const bool is_prompt = done_steps_ < prompt_steps_;
  for (InferenceInput& input : step.inputs) {
    if (!rules_.feeds.contains(input.name)) continue;
    input.tensor = is_prompt ? part_of(input.tensor, done_steps_) : feedback_.at(input.name);
    input.shape = input.tensor.shape();
  }
  const bool is_last = done_steps_ + 1 == prompt_steps_ - 1 + most_steps_;
  step.sequence.is_start = step.sequence.is_start && done_steps_ == 0;
  step.sequence.is_end = step.sequence.is_end && is_last;
  return step;
}

void Generation::submit_step() {
  try {
    auto step = std::make_shared<Call>();
    step->arrival_ns = call_->arrival_ns;
    step->trace = call_->trace;
    step->times = call_->times;
    step->request = next_request();
    step->done = [self = shared_from_this()](Outcome outcome) { self->finish_step(std::move(outcome)); };
    {
      const std::lock_guard lock(mutex_);
      if (is_cancelled_ || call_->cancellation.flag().load(std::memory_order_relaxed))
        throw Failure(Reason::cancelled, "the request was cancelled");
      step_ = step;
    }
    actions_.submit(step);
  } catch (...) {
    end(current_failure());
  }
}

bool Generation::is_stopped_by(const InferenceResponse& response) const {
  return std::ranges::any_of(response.outputs, [&](const OutputTensor& output) {
    const auto stop = rules_.stops.find(output.name);
    return stop != rules_.stops.end() && output.tensor.elements() == 1 && equals(output.tensor, stop->second);
  });
}

void Generation::keep_feedback(const InferenceResponse& response) {
  for (const auto& [input, output] : rules_.feeds) {
    const auto found = std::ranges::find(response.outputs, output, &OutputTensor::name);
    const Shape shape = step_shape(*find(inputs_, input));
    const bool fits = found != response.outputs.end() && found->tensor.elements() == element_count(shape);
    if (!fits)
      throw Failure(
          Reason::unsupported,
          fmt::format("output '{}' has the shape {}, which input '{}' of the next step does not take: {}",
                      base::shown(output), found != response.outputs.end() ? to_string(found->tensor.shape()) : "none",
                      base::shown(input), to_string(shape)));
    feedback_.insert_or_assign(input, found->tensor.clone().reshaped(shape));
  }
}

void Generation::finish_step(Outcome outcome) {
  if (outcome.failure) return end(std::move(outcome.failure));
  try {
    is_open_ = has_states_;
    ++done_steps_;
    if (!has_states_) request_.request.version = outcome.response.version;
    if (done_steps_ < prompt_steps_) return go_on();
    const bool is_last_step = done_steps_ == prompt_steps_ - 1 + most_steps_;
    if (is_last_step && request_.request.sequence.is_end) is_open_ = false;
    const bool ends = is_last_step || is_stopped_by(outcome.response);
    if (!ends) keep_feedback(outcome.response);
    if (ends) {
      sink_->put(std::move(outcome.response), [](bool) {});
      return end(std::nullopt);
    }
  } catch (...) {
    return end(current_failure());
  }
  sink_->put(std::move(outcome.response), [self = shared_from_this()](bool takes_more) {
    if (takes_more) self->go_on();
    else self->end(Failure(Reason::cancelled, "the request was cancelled"));
  });
}

void Generation::end(std::optional<Failure> failure) {
  {
    const std::lock_guard lock(mutex_);
    step_.reset();
  }
  // A sequence of the client's own goes on after a stop, unless the request was to end it.
  if (is_open_ && (owns_sequence_ || request_.request.sequence.is_end)) actions_.end_sequence(request_.request);
  actions_.before_end(failure);
  sink_->end(std::move(failure));
}

}  // namespace tessera::serve
