#include "serve/protocol/response_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/text.h"
#include "serve/protocol/datatype.h"
#include "serve/protocol/failure.h"
#include "serve/protocol/request_decoder.h"

namespace tessera::serve {
namespace {

// The length of the UTF-8 character at the beginning (RFC 3629), 0 where there is none.
std::size_t character_bytes(std::string_view text) {
  const auto at = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](std::size_t i) { return (at(i) & 0xC0u) == 0x80u; };
  const unsigned first = at(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!follows(1) || !follows(2)) return 0;
    if ((first == 0xE0 && at(1) < 0xA0) || (first == 0xED && at(1) > 0x9F)) return 0;
    return 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!follows(1) || !follows(2) || !follows(3)) return 0;
    if ((first == 0xF0 && at(1) < 0x90) || (first == 0xF4 && at(1) > 0x8F)) return 0;
    return 4;
  }
  return 0;
}

template <typename T>
void append_numbers(const Tensor& tensor, std::string& json) {
  bool first = true;
  for (const T value : tensor.values<T>()) {
    if (!first) json += ',';
    first = false;
    if constexpr (std::is_same_v<T, bool>) json += value ? "true" : "false";
    else if constexpr (std::is_floating_point_v<T>) {
      // An integer has no negative zero.
      if (value == 0 && std::signbit(value)) json += "-0.0";
      else if (std::isfinite(value)) fmt::format_to(std::back_inserter(json), "{}", value);
      else json += "null";
    } else
      fmt::format_to(std::back_inserter(json), "{}", static_cast<std::conditional_t<sizeof(T) == 1, int, T>>(value));
  }
}

void append_data(const OutputTensor& output, std::string& json) {
  switch (output.tensor.dtype()) {
    case DType::boolean:
      return append_numbers<bool>(output.tensor, json);
    case DType::u8:
      return append_numbers<std::uint8_t>(output.tensor, json);
    case DType::u16:
      return append_numbers<std::uint16_t>(output.tensor, json);
    case DType::u32:
      return append_numbers<std::uint32_t>(output.tensor, json);
    case DType::u64:
      return append_numbers<std::uint64_t>(output.tensor, json);
    case DType::i8:
      return append_numbers<std::int8_t>(output.tensor, json);
    case DType::i16:
      return append_numbers<std::int16_t>(output.tensor, json);
    case DType::i32:
      return append_numbers<std::int32_t>(output.tensor, json);
    case DType::i64:
      return append_numbers<std::int64_t>(output.tensor, json);
    case DType::f32:
      return append_numbers<float>(output.tensor, json);
    case DType::f64:
      return append_numbers<double>(output.tensor, json);
    case DType::string: {
      bool first = true;
      for (const std::string& text : output.tensor.values<std::string>()) {
        if (!first) json += ',';
        first = false;
        append_json_text(text, json);
      }
      return;
    }
    default:
      throw Failure(Reason::bad_request,
                    fmt::format("output '{}' is {}, which JSON cannot hold: ask for it as binary data",
                                base::shown(output.name), datatype_name(output.tensor.dtype())));
  }
}

const RequestedOutput* request_for(const std::string& name, const InferenceRequest& request) {
  const auto found = std::ranges::find(request.outputs, name, &RequestedOutput::name);
  return found != request.outputs.end() ? &*found : nullptr;
}

// Returns whether the tensor's bytes are to stand behind the JSON text.
bool append_output(const OutputTensor& output, const InferenceRequest& request, std::string& json) {
  const RequestedOutput* const wish = request_for(output.name, request);
  const bool binary = wish != nullptr ? wish->binary : request.binary_by_default;
  json += "{\"name\":";
  append_json_text(output.name, json);
  fmt::format_to(std::back_inserter(json), ",\"datatype\":\"{}\",\"shape\":[{}]", datatype_name(output.tensor.dtype()),
                 fmt::join(output.tensor.shape(), ","));
  if (wish != nullptr && wish->region) {
    json += ",\"parameters\":{\"shared_memory_region\":";
    append_json_text(wish->region->region, json);
    fmt::format_to(std::back_inserter(json), ",\"shared_memory_byte_size\":{}", wish->region->byte_size);
    if (wish->region->offset != 0)
      fmt::format_to(std::back_inserter(json), ",\"shared_memory_offset\":{}", wish->region->offset);
    json += "}}";
    return false;
  }
  if (binary) {
    fmt::format_to(std::back_inserter(json), ",\"parameters\":{{\"binary_data_size\":{}}}}}",
                   encoded_bytes(output.tensor));
    return true;
  }
  json += ",\"data\":[";
  append_data(output, json);
  json += "]}";
  return false;
}

}  // namespace

void append_json_text(std::string_view text, std::string& json) {
  json += '"';
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    const auto c = static_cast<unsigned char>(text[0]);
    if (bytes == 0) json += "\\ufffd";
    else if (c == '"' || c == '\\') (json += '\\') += static_cast<char>(c);
    else if (c < 0x20) fmt::format_to(std::back_inserter(json), "\\u{:04x}", c);
    else json += text.substr(0, bytes);
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  json += '"';
}

void append_value(const OutputTensor& output, std::string& json) {
  const bool is_list = output.tensor.elements() != 1;
  if (is_list) json += '[';
  append_data(output, json);
  if (is_list) json += ']';
}

std::string json_text(std::string_view text) {
  std::string json;
  append_json_text(text, json);
  return json;
}

EncodedResponse encode_response(const InferenceResponse& response, const InferenceRequest& request) {
  EncodedResponse encoded;
  std::string& json = encoded.body;
  json += '{';
  if (!response.id.empty()) {
    json += "\"id\":";
    append_json_text(response.id, json);
    json += ',';
  }
  json += "\"model_name\":";
  append_json_text(response.model, json);
  json += ",\"model_version\":";
  append_json_text(response.version, json);
  json += ",\"outputs\":[";
  std::vector<const Tensor*> behind;
  bool first = true;
  for (const OutputTensor& output : response.outputs) {
    if (!first) json += ',';
    first = false;
    if (append_output(output, request, json)) behind.push_back(&output.tensor);
  }
  json += "]}";
  if (behind.empty()) return encoded;
  encoded.json_bytes = json.size();
  std::int64_t bytes = static_cast<std::int64_t>(json.size());
  for (const Tensor* tensor : behind) bytes += encoded_bytes(*tensor);
  json.reserve(static_cast<std::size_t>(bytes));
  for (const Tensor* tensor : behind) append_elements(*tensor, json);
  return encoded;
}

}  // namespace tessera::serve
