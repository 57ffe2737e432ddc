#include "text/text_input.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"

namespace tessera::text {
namespace {

// The contents of a text input, by the names that exporters give to inputs.
struct Field {
  std::string_view name;
  std::vector<std::int64_t> TokenEncoding::* values;
};

constexpr std::array<Field, 5> kFields{{{"input_ids", &TokenEncoding::ids},
                                        {"attention_mask", &TokenEncoding::attention_mask},
                                        {"input_mask", &TokenEncoding::attention_mask},
                                        {"token_type_ids", &TokenEncoding::type_ids},
                                        {"segment_ids", &TokenEncoding::type_ids}}};

const Field* field_of(const ValueDescription& input) {
  const auto found = std::ranges::find(kFields, input.name, &Field::name);
  return found == kFields.end() ? nullptr : &*found;
}

template <typename T>
void fill(Tensor& tensor, const std::vector<std::vector<std::int64_t>>& rows) {
  T* out = tensor.mutable_data<T>();
  for (const auto& row : rows) out = std::ranges::transform(row, out, [](std::int64_t v) { return T(v); }).out;
}

Tensor as_tensor(const std::vector<TokenEncoding>& encodings, const Field& field, DType dtype,
                 const std::string& name) {
  std::vector<std::vector<std::int64_t>> rows;
  for (const TokenEncoding& encoding : encodings) rows.push_back(encoding.*field.values);
  Tensor tensor(dtype, {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows.front().size())});
  switch (dtype) {
    case DType::i64:
      fill<std::int64_t>(tensor, rows);
      break;
    case DType::i32:
      fill<std::int32_t>(tensor, rows);
      break;
    case DType::f32:
      fill<float>(tensor, rows);
      break;
    default:
      fail(ErrorKind::invalid_argument, "input '{}' is {}, expected i64, i32 or f32 for the numbers of tokens", name,
           name_of(dtype));
  }
  return tensor;
}

}  // namespace

NamedValues text_inputs(std::span<const ValueDescription> model_inputs, const Tokenizer& tokenizer,
                        std::span<const std::string> texts, std::int64_t max_length) {
  require(!texts.empty(), ErrorKind::invalid_argument, "there is no text to run the model on");
  std::int64_t fixed = 0;
  bool reads_ids = false;
  for (const ValueDescription& input : model_inputs) {
    if (field_of(input) == nullptr) continue;
    reads_ids |= input.name == "input_ids";
    require(input.rank_known && input.dims.size() == 2, ErrorKind::invalid_argument,
            "input '{}' is {}, expected two dimensions: texts and tokens", input.name, input.type);
    const std::int64_t count = input.dims[0], tokens = input.dims[1];
    require(count < 0 || count == static_cast<std::int64_t>(texts.size()), ErrorKind::invalid_argument,
            "input '{}' takes {} texts at once, got {}", input.name, count, texts.size());
    if (tokens >= 0) fixed = tokens;
  }
  require(
      reads_ids, ErrorKind::invalid_argument,
      "the model has no input 'input_ids' for the numbers of tokens; make its inputs with `tessera tokenize --json`");
  std::vector<TokenEncoding> encodings = tokenizer.encode_batch(texts, {.max_length = fixed > 0 ? fixed : max_length});
  if (fixed > 0) tokenizer.pad(encodings, fixed);
  require(!encodings.front().ids.empty(), ErrorKind::invalid_argument, "the text has no tokens");
  NamedValues inputs;
  for (const ValueDescription& input : model_inputs) {
    const Field* field = field_of(input);
    if (field != nullptr) inputs.emplace(input.name, as_tensor(encodings, *field, input.dtype, input.name));
  }
  return inputs;
}

}  // namespace tessera::text
