#include "serve/grpc/convert.h"

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "serve/protocol/datatype.h"
#include "serve/protocol/request_decoder.h"

namespace tessera::serve {
namespace {

using Parameters = google::protobuf::Map<std::string, inference::InferParameter>;

[[noreturn]] void refuse(const std::string& message) {
  throw Failure(Reason::bad_request, message);
}

std::int64_t whole(const inference::InferParameter& parameter, const std::string& name) {
  if (parameter.parameter_choice_case() == inference::InferParameter::kInt64Param) return parameter.int64_param();
  if (parameter.parameter_choice_case() == inference::InferParameter::kUint64Param &&
      std::in_range<std::int64_t>(parameter.uint64_param()))
    return static_cast<std::int64_t>(parameter.uint64_param());
  refuse(fmt::format("the parameter '{}' is not a whole number", base::shown(name)));
}

std::int64_t whole_or(const Parameters& parameters, const std::string& name, std::int64_t otherwise) {
  const auto found = parameters.find(name);
  return found != parameters.end() ? whole(found->second, name) : otherwise;
}

std::optional<RegionPart> region_of(const Parameters& parameters) {
  const auto found = parameters.find("shared_memory_region");
  if (found == parameters.end()) return std::nullopt;
  return RegionPart{found->second.string_param(), whole_or(parameters, "shared_memory_offset", 0),
                    whole_or(parameters, "shared_memory_byte_size", 0)};
}

template <typename T, typename Values>
Tensor copied(const InferenceInput& input, const Values& values) {
  const std::int64_t elements = checked_elements(input.name, input.shape);
  if (elements != values.size())
    refuse(fmt::format("input '{}' has {} elements, expected {} for the shape {}", base::shown(input.name),
                       values.size(), elements, to_string(input.shape)));
  Tensor tensor(input.dtype, input.shape);
  T* next = tensor.mutable_data<T>();
  for (const auto& value : values) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (!std::in_range<T>(value))
        refuse(fmt::format("input '{}' has the element {}, which is no {}", base::shown(input.name), value,
                           datatype_name(input.dtype)));
    }
    *next++ = static_cast<T>(value);
  }
  return tensor;
}

Tensor from_contents(const InferenceInput& input, const inference::InferTensorContents& contents) {
  switch (input.dtype) {
    case DType::boolean:
      return copied<bool>(input, contents.bool_contents());
    case DType::i8:
      return copied<std::int8_t>(input, contents.int_contents());
    case DType::i16:
      return copied<std::int16_t>(input, contents.int_contents());
    case DType::i32:
      return copied<std::int32_t>(input, contents.int_contents());
    case DType::i64:
      return copied<std::int64_t>(input, contents.int64_contents());
    case DType::u8:
      return copied<std::uint8_t>(input, contents.uint_contents());
    case DType::u16:
      return copied<std::uint16_t>(input, contents.uint_contents());
    case DType::u32:
      return copied<std::uint32_t>(input, contents.uint_contents());
    case DType::u64:
      return copied<std::uint64_t>(input, contents.uint64_contents());
    case DType::f32:
      return copied<float>(input, contents.fp32_contents());
    case DType::f64:
      return copied<double>(input, contents.fp64_contents());
    case DType::string:
      return copied<std::string>(input, contents.bytes_contents());
    default:
      refuse(fmt::format("input '{}' is {}: send it as raw_input_contents", base::shown(input.name),
                         datatype_name(input.dtype)));
  }
}

SequenceId sequence_id(const inference::InferParameter& parameter) {
  using inference::InferParameter;
  if (parameter.parameter_choice_case() == InferParameter::kStringParam) return {0, parameter.string_param()};
  if (parameter.parameter_choice_case() == InferParameter::kUint64Param) return {parameter.uint64_param(), ""};
  const std::int64_t number = whole(parameter, "sequence_id");
  if (number < 0) refuse("'sequence_id' is negative");
  return {static_cast<std::uint64_t>(number), ""};
}

bool flag(const Parameters& parameters, const std::string& name) {
  const auto found = parameters.find(name);
  if (found == parameters.end()) return false;
  if (found->second.parameter_choice_case() != inference::InferParameter::kBoolParam)
    refuse(fmt::format("the parameter '{}' is neither true nor false", name));
  return found->second.bool_param();
}

void read_parameters(const Parameters& parameters, InferenceRequest& request) {
  const std::int64_t us = whole_or(parameters, "timeout", 0);
  if (us < 0 || us > std::numeric_limits<std::int64_t>::max() / 4000) refuse("'timeout' is out of range");
  request.timeout_ns = us * 1000;
  const std::int64_t priority = whole_or(parameters, "priority", 0);
  if (priority < 0) refuse("'priority' is negative");
  request.priority = static_cast<std::uint64_t>(priority);
  const auto routing = parameters.find("routing_key");
  if (routing != parameters.end()) request.routing_key = routing->second.string_param();
  const auto sequence = parameters.find("sequence_id");
  if (sequence != parameters.end()) request.sequence.id = sequence_id(sequence->second);
  request.sequence.is_start = flag(parameters, "sequence_start");
  request.sequence.is_end = flag(parameters, "sequence_end");
}

void set(inference::StatisticDuration& message, const DurationSum& sum) {
  message.set_count(sum.count);
  message.set_ns(sum.ns);
}

// An output's tensor, or null where the elements lie in shared memory, and the bytes of its elements.
using RawOutputs = std::vector<std::pair<const Tensor*, std::int64_t>>;

const RequestedOutput* in_region(const InferenceRequest& request, const std::string& name) {
  const auto wish = std::ranges::find(request.outputs, name, &RequestedOutput::name);
  return wish != request.outputs.end() && wish->region ? &*wish : nullptr;
}

RawOutputs raw_outputs(const InferenceResponse& response, const InferenceRequest& request) {
  RawOutputs outputs;
  for (const OutputTensor& output : response.outputs) {
    if (in_region(request, output.name) != nullptr) outputs.emplace_back(nullptr, 0);
    else outputs.emplace_back(&output.tensor, encoded_bytes(output.tensor));
  }
  return outputs;
}

// A ModelInferResponse without the elements.
std::string header_of(const InferenceResponse& response, const InferenceRequest& request) {
  inference::ModelInferResponse message;
  message.set_model_name(response.model);
  message.set_model_version(response.version);
  message.set_id(response.id);
  for (const OutputTensor& output : response.outputs) {
    auto& tensor = *message.add_outputs();
    tensor.set_name(output.name);
    tensor.set_datatype(std::string(datatype_name(output.tensor.dtype())));
    for (const std::int64_t size : output.tensor.shape()) tensor.add_shape(size);
    const RequestedOutput* const wish = in_region(request, output.name);
    if (wish == nullptr) continue;
    auto& parameters = *tensor.mutable_parameters();
    parameters["shared_memory_region"].set_string_param(wish->region->region);
    parameters["shared_memory_byte_size"].set_int64_param(wish->region->byte_size);
    if (wish->region->offset != 0) parameters["shared_memory_offset"].set_int64_param(wish->region->offset);
  }
  return message.SerializeAsString();
}

// The tag and length of a field of bytes (https://protobuf.dev/programming-guides/encoding/).
void append_length(int field, std::int64_t length, std::string& bytes) {
  constexpr std::uint64_t kLengthDelimited = 2;
  for (std::uint64_t number :
       {static_cast<std::uint64_t>(field) << 3 | kLengthDelimited, static_cast<std::uint64_t>(length)}) {
    for (; number > 127; number >>= 7) bytes += static_cast<char>((number & 127) | 128);
    bytes += static_cast<char>(number);
  }
}

std::int64_t answer_bytes(const std::string& header, const RawOutputs& outputs) {
  constexpr std::int64_t kMostBytes = INT32_MAX - (1 << 20);
  auto bytes = static_cast<std::int64_t>(header.size());
  for (const auto& [tensor, length] : outputs) {
    std::string before;
    append_length(inference::ModelInferResponse::kRawOutputContentsFieldNumber, length, before);
    bytes += static_cast<std::int64_t>(before.size()) + length;
  }
  if (bytes > kMostBytes)
    throw Failure(Reason::too_large, fmt::format("the answer has {} bytes, and gRPC takes {} at most: ask for outputs "
                                                 "in shared memory, or by HTTP",
                                                 bytes, kMostBytes));
  return bytes;
}

void append_answer(const std::string& header, const RawOutputs& outputs, std::string& bytes) {
  bytes.reserve(bytes.size() + static_cast<std::size_t>(answer_bytes(header, outputs)));
  bytes += header;
  for (const auto& [tensor, length] : outputs) {
    append_length(inference::ModelInferResponse::kRawOutputContentsFieldNumber, length, bytes);
    if (tensor != nullptr) append_elements(*tensor, bytes);
  }
}

}  // namespace

InferenceRequest from_message(const inference::ModelInferRequest& message) {
  InferenceRequest request;
  request.model = message.model_name();
  request.version = message.model_version();
  request.id = message.id();
  request.binary_by_default = true;
  read_parameters(message.parameters(), request);
  const bool is_raw = message.raw_input_contents_size() > 0;
  int next = 0;
  for (const auto& given : message.inputs()) {
    InferenceInput input;
    input.name = given.name();
    input.dtype = checked_datatype(input.name, given.datatype());
    input.shape.assign(given.shape().begin(), given.shape().end());
    input.region = region_of(given.parameters());
    if (input.region) checked_elements(input.name, input.shape);
    else if (is_raw) {
      if (given.has_contents()) refuse("a request has either contents or raw_input_contents, not both");
      if (next >= message.raw_input_contents_size())
        refuse(fmt::format("raw_input_contents has no data for input '{}'", base::shown(input.name)));
      input.tensor = decode_elements(input.name, input.dtype, input.shape, message.raw_input_contents(next++));
    } else input.tensor = from_contents(input, given.contents());
    request.inputs.push_back(std::move(input));
  }
  if (next != message.raw_input_contents_size()) refuse("raw_input_contents has more entries than there are inputs");
  for (const auto& given : message.outputs()) {
    RequestedOutput output{given.name(), true, whole_or(given.parameters(), "classification", 0),
                           region_of(given.parameters())};
    if (output.classes < 0) refuse("'classification' is negative");
    request.outputs.push_back(std::move(output));
  }
  return request;
}

void to_message(const InferenceResponse& response, const InferenceRequest& request,
                inference::ModelInferResponse& message) {
  if (!message.ParseFromString(encode_answer(response, request)))
    throw Failure(Reason::internal, "the answer cannot be read again");
}

std::string encode_answer(const InferenceResponse& response, const InferenceRequest& request) {
  std::string bytes;
  append_answer(header_of(response, request), raw_outputs(response, request), bytes);
  return bytes;
}

std::string encode_stream_answer(const InferenceResponse& response, const InferenceRequest& request) {
  const std::string header = header_of(response, request);
  const RawOutputs outputs = raw_outputs(response, request);
  std::string bytes;
  append_length(inference::ModelStreamInferResponse::kInferResponseFieldNumber, answer_bytes(header, outputs), bytes);
  append_answer(header, outputs, bytes);
  return bytes;
}

void to_message(const ServableInfo& info, const std::vector<std::string>& versions,
                inference::ModelMetadataResponse& message) {
  message.set_name(info.name);
  message.set_platform(info.platform);
  for (const std::string& version : versions) message.add_versions(version);
  const auto fill = [](const TensorInfo& from, inference::ModelMetadataResponse::TensorMetadata& to) {
    to.set_name(from.name);
    to.set_datatype(std::string(datatype_name(from.dtype)));
    for (const std::int64_t size : from.shape) to.add_shape(size);
  };
  for (const TensorInfo& input : info.inputs) fill(input, *message.add_inputs());
  for (const TensorInfo& output : info.outputs) fill(output, *message.add_outputs());
}

void to_message(const Servable& servable, inference::ModelStatistics& message) {
  const StatisticsSnapshot s = servable.statistics();
  message.set_name(servable.info().name);
  message.set_version(servable.info().version);
  message.set_last_inference(s.last_inference_ms);
  message.set_inference_count(s.inferences);
  message.set_execution_count(s.executions);
  inference::InferStatistics& sums = *message.mutable_inference_stats();
  set(*sums.mutable_success(), s.success);
  set(*sums.mutable_fail(), s.fail);
  set(*sums.mutable_queue(), s.queue);
  set(*sums.mutable_compute_input(), s.input);
  set(*sums.mutable_compute_infer(), s.infer);
  set(*sums.mutable_compute_output(), s.output);
  set(*sums.mutable_cache_hit(), s.cache_hit);
  set(*sums.mutable_cache_miss(), s.cache_miss);
  for (const auto& [rows, batch] : s.batches) {
    inference::InferBatchStatistics& entry = *message.add_batch_stats();
    entry.set_batch_size(static_cast<std::uint64_t>(rows));
    set(*entry.mutable_compute_input(), batch.input);
    set(*entry.mutable_compute_infer(), batch.infer);
    set(*entry.mutable_compute_output(), batch.output);
  }
}

}  // namespace tessera::serve
