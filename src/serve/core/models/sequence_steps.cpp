#include "serve/core/models/sequence_steps.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "io/file.h"
#include "serve/protocol/request_decoder.h"

namespace tessera::serve {
namespace {

using Rules = inference::ModelSequenceBatching;

constexpr std::int64_t kMostStateBytes = std::int64_t{256} << 20;

const TensorInfo* find(const std::vector<TensorInfo>& infos, const std::string& name) {
  const auto found = std::ranges::find(infos, name, &TensorInfo::name);
  return found != infos.end() ? &*found : nullptr;
}

void check_type(const std::string& name, inference::DataType said, DType dtype) {
  require(said == inference::TYPE_INVALID || type_of_config(said) == dtype, ErrorKind::invalid_argument,
          "the sequence batching says that '{}' is {}, but the model's is {}", name, inference::DataType_Name(said),
          inference::DataType_Name(config_type(dtype)));
}

template <typename T, typename Number>
Tensor filled(const Shape& shape, Number number) {
  Tensor tensor(dtype_of<T>, shape);
  std::ranges::fill(tensor.mutable_values<T>(), static_cast<T>(number));
  return tensor;
}

template <typename T>
Tensor whole_id(const std::string& input, const Shape& shape, const SequenceId& id) {
  if (!id.text.empty() || !std::in_range<T>(id.number))
    throw Failure(Reason::bad_request,
                  fmt::format("the sequence id is not a whole number that the model's input '{}' can hold", input));
  return filled<T>(shape, id.number);
}

Tensor id_tensor(const std::string& input, DType dtype, const Shape& shape, const SequenceId& id) {
  switch (dtype) {
    case DType::u64:
      return whole_id<std::uint64_t>(input, shape, id);
    case DType::i64:
      return whole_id<std::int64_t>(input, shape, id);
    case DType::u32:
      return whole_id<std::uint32_t>(input, shape, id);
    case DType::i32:
      return whole_id<std::int32_t>(input, shape, id);
    default:
      break;
  }
  Tensor tensor(DType::string, shape);
  std::ranges::fill(tensor.mutable_values<std::string>(), id.text.empty() ? std::to_string(id.number) : id.text);
  return tensor;
}

bool can_hold(Rules::Control::Kind kind, DType dtype) {
  const bool holds_id = dtype == DType::u64 || dtype == DType::i64 || dtype == DType::u32 || dtype == DType::i32 ||
                        dtype == DType::string;
  const bool holds_flag = dtype == DType::i32 || dtype == DType::f32 || dtype == DType::boolean;
  return kind == Rules::Control::CONTROL_SEQUENCE_CORRID ? holds_id : holds_flag;
}

template <typename Tensors>
void erase(Tensors& tensors, const std::string& name) {
  for (int i = tensors.size(); i-- > 0;) {
    if (tensors[i].name() == name) tensors.DeleteSubrange(i, 1);
  }
}

}  // namespace

SequenceSteps::SequenceSteps(const ServableInfo& network, const Rules& rules, const std::filesystem::path& folder)
    : batched_(network.settings.config.max_batch_size() > 0), seen_(network) {
  for (const Rules::ControlInput& control : rules.control_input()) add_control(network, control);
  for (const Rules::State& state : rules.state()) add_state(network, state, folder);
  inference::ModelConfig& config = seen_.settings.config;
  *config.mutable_sequence_batching() = rules;
  const auto hide_input = [&](const std::string& name) {
    std::erase_if(seen_.inputs, [&](const TensorInfo& info) { return info.name == name; });
    erase(*config.mutable_input(), name);
  };
  for (const Control& control : controls_) hide_input(control.input);
  for (const State& state : states_) {
    hide_input(state.input);
    if (network.settings.shown_outputs.contains(state.output)) continue;
    std::erase_if(seen_.outputs, [&](const TensorInfo& info) { return info.name == state.output; });
    erase(*config.mutable_output(), state.output);
  }
}

void SequenceSteps::add_control(const ServableInfo& network, const Rules::ControlInput& control) {
  require(control.control_size() == 1, ErrorKind::invalid_argument,
          "the control input '{}' has {} controls, expected one", control.name(), control.control_size());
  const TensorInfo* const info = find(network.inputs, control.name());
  require(info != nullptr, ErrorKind::invalid_argument,
          "the sequence batching has the control input '{}', which the model has not", control.name());
  const Rules::Control& given = control.control(0);
  require(can_hold(given.kind(), info->dtype), ErrorKind::invalid_argument,
          "the control input '{}' is {}, which cannot hold {}", control.name(), name_of(info->dtype),
          Rules::Control::Kind_Name(given.kind()));
  check_type(control.name(), given.data_type(), info->dtype);
  Control made{control.name(), given.kind(), info->dtype, info->shape};
  for (std::int64_t& size : made.shape) size = size < 0 ? 1 : size;
  require(element_count(made.shape) == 1, ErrorKind::invalid_argument,
          "the control input '{}' has the shape {}, expected one element a row", control.name(),
          to_string(info->shape));
  const auto take = [&](const auto& values) {
    if (values.size() == 0) return;
    require(values.size() == 2, ErrorKind::invalid_argument,
            "the control input '{}' has {} values, expected one for false and one for true", control.name(),
            values.size());
    made.off = static_cast<double>(values[0]);
    made.on = static_cast<double>(values[1]);
  };
  take(given.int32_false_true());
  take(given.fp32_false_true());
  take(given.bool_false_true());
  controls_.push_back(std::move(made));
}

void SequenceSteps::add_state(const ServableInfo& network, const Rules::State& state,
                              const std::filesystem::path& folder) {
  const TensorInfo *const input = find(network.inputs, state.input_name()), *const output = find(network.outputs,
                                                                                                 state.output_name());
  require(input != nullptr, ErrorKind::invalid_argument, "the state's input '{}' is none of the model's",
          state.input_name());
  require(output != nullptr, ErrorKind::invalid_argument, "the state's output '{}' is none of the model's",
          state.output_name());
  require(input->dtype == output->dtype, ErrorKind::invalid_argument,
          "the state's input '{}' is {}, its output '{}' {}: they must be of one type", state.input_name(),
          name_of(input->dtype), state.output_name(), name_of(output->dtype));
  check_type(state.input_name(), state.data_type(), input->dtype);
  require(state.initial_state_size() <= 1, ErrorKind::invalid_argument,
          "the state '{}' has {} initial states, expected one at most", state.input_name(), state.initial_state_size());
  const Rules::InitialState initial = state.initial_state_size() == 1 ? state.initial_state(0) : Rules::InitialState();
  check_type(state.input_name(), initial.data_type(), input->dtype);
  Shape shape(initial.dims().begin(), initial.dims().end());
  if (shape.empty()) shape.assign(input->shape.begin() + (batched_ ? 1 : 0), input->shape.end());
  for (std::int64_t& size : shape) size = size < 0 ? 1 : size;
  if (batched_) shape.insert(shape.begin(), 1);
  require(byte_count(input->dtype, shape) <= kMostStateBytes, ErrorKind::over_budget,
          "the state '{}' has the shape {}: more than {} bytes", state.input_name(), to_string(shape), kMostStateBytes);
  Tensor tensor(input->dtype, shape);
  if (initial.has_data_file()) {
    io::InputFile file = io::InputFile::open_below(folder, "initial_state/" + initial.data_file());
    require(file.bytes() <= kMostStateBytes, ErrorKind::over_budget, "{} has {} bytes, at most {} are read",
            file.name(), file.bytes(), kMostStateBytes);
    std::string bytes(static_cast<std::size_t>(file.bytes()), '\0');
    file.read(std::as_writable_bytes(std::span(bytes)));
    try {
      tensor = decode_elements(state.input_name(), input->dtype, shape, bytes);
    } catch (const Failure& failure) {
      fail(ErrorKind::invalid_argument, "the initial state of '{}': {}", state.input_name(), failure.what());
    }
  } else if (input->dtype != DType::string && tensor.bytes() > 0) {
    std::memset(tensor.mutable_raw(), 0, static_cast<std::size_t>(tensor.bytes()));
  }
  initial_.insert_or_assign(state.input_name(), std::move(tensor));
  states_.push_back({state.input_name(), state.output_name()});
}

Tensor SequenceSteps::value_of(const Control& control, const SequencePart& part, bool is_first) const {
  if (control.kind == Rules::Control::CONTROL_SEQUENCE_CORRID)
    return id_tensor(control.input, control.dtype, control.shape, part.id);
  bool is_on = true;  // READY: only requests are computed, never slots without one
  if (control.kind == Rules::Control::CONTROL_SEQUENCE_START) is_on = is_first;
  if (control.kind == Rules::Control::CONTROL_SEQUENCE_END) is_on = part.is_end;
  const double value = is_on ? control.on : control.off;
  if (control.dtype == DType::i32) return filled<std::int32_t>(control.shape, value);
  if (control.dtype == DType::boolean) return filled<bool>(control.shape, value != 0);
  return filled<float>(control.shape, value);
}

InferenceRequest SequenceSteps::request_of(const InferenceRequest& asked, const SequenceState& state,
                                           bool is_first) const {
  InferenceRequest request;
  request.model = asked.model;
  request.version = asked.version;
  request.id = asked.id;
  request.priority = asked.priority;
  request.timeout_ns = asked.timeout_ns;
  for (const InferenceInput& input : asked.inputs) {
    if (find(seen_.inputs, input.name) == nullptr)
      throw Failure(Reason::bad_request,
                    fmt::format("model '{}' has no input '{}'", seen_.name, base::shown(input.name)));
    if (batched_ && (input.tensor.rank() < 1 || input.tensor.shape()[0] != 1))
      throw Failure(Reason::bad_request,
                    fmt::format("a request of a sequence has one row, but input '{}' has the shape {}",
                                base::shown(input.name), to_string(input.tensor.shape())));
    request.inputs.push_back(input);
  }
  for (const Control& control : controls_) {
    const Tensor tensor = value_of(control, asked.sequence, is_first);
    request.inputs.push_back({control.input, tensor.dtype(), tensor.shape(), tensor, {}});
  }
  for (const auto& [name, tensor] : state) request.inputs.push_back({name, tensor.dtype(), tensor.shape(), tensor, {}});
  for (const RequestedOutput& output : asked.outputs) {
    if (find(seen_.outputs, output.name) == nullptr)
      throw Failure(Reason::bad_request,
                    fmt::format("model '{}' has no output '{}'", seen_.name, base::shown(output.name)));
    request.outputs.push_back({output.name, output.binary, output.classes, {}});
  }
  if (asked.outputs.empty()) {
    for (const TensorInfo& info : seen_.outputs) request.outputs.push_back({info.name, false, 0, {}});
  }
  for (const State& each : states_) request.outputs.push_back({each.output, false, 0, {}});
  return request;
}

SequenceState SequenceSteps::take_state(const InferenceRequest& asked, InferenceResponse& answer) const {
  SequenceState state;
  // The states stand last, in their order: a client may have asked for the same output.
  std::vector<OutputTensor>& outputs = answer.outputs;
  const std::size_t first = outputs.size() - states_.size();
  for (std::size_t i = 0; i < states_.size(); ++i)
    // An output may be a view of a whole batch.
    state.insert_or_assign(states_[i].input, outputs[first + i].tensor.clone());
  outputs.resize(first);
  answer.id = asked.id;
  return state;
}

}  // namespace tessera::serve
