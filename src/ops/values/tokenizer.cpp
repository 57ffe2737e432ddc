#include "ops/values/tokenizer.h"

#include <algorithm>

namespace tessera::ops {
namespace {

void infer_tokenizer(InferContext& context) {
  const bool separated = context.has_attribute("separators") && !context.texts("separators").empty();
  context.check(separated || context.has_attribute("tokenexp"), "neither separators nor tokenexp says what a token is");
  context.check(separated || !context.text("tokenexp").empty(), "tokenexp is empty");
  const std::int64_t least = context.integer("mincharnum");
  context.check(least > 0, "mincharnum is {}, expected at least 1", least);
  context.check(!makes_tokens_of_characters(context) || least == 1,
                "mincharnum is {} where every character is a token, expected 1", least);
  const ir::Dims* dims = context.dims(0);
  if (dims == nullptr) return context.set_output_unknown_rank(0, DType::string);
  context.check(dims->size() == 1 || dims->size() == 2, "X is {}, expected [C] or [N, C]", ir::to_string(*dims));
  ir::Dims result = *dims;
  result.emplace_back();
  context.set_output(0, DType::string, std::move(result));
}

}  // namespace

bool makes_tokens_of_characters(const AttributeReader& reader) {
  if (reader.has_attribute("separators") && !reader.texts("separators").empty())
    return reader.texts("separators").size() == 1 && reader.texts("separators")[0].empty();
  return reader.has_attribute("tokenexp") && reader.text("tokenexp") == ".";
}

// [C] or [N, C] texts to [..., most tokens of a text], the others filled up with pad_value behind theirs. Tokens are
//   with separators, regular expressions (RE2's): what is left between their matches, expression by expression in their
//     order; the one separator "" makes a token of every character;
//   else with tokenexp: its matches; "." makes a token of every character, the end of a line too.
// Tokens of less than mincharnum characters are dropped. `mark` puts the characters 2 and 3 around the tokens of each
// text. If no text has a token, the last dimension is 0.
// (onnxruntime, docs/ContribOperators.md.)
const OpDef tokenizer{
    .name = "com.microsoft::Tokenizer",
    .since = 1,
    .inputs = {{"X", types::text, "T"}},
    .outputs = {{"Y", types::text, "T"}},
    .attributes = {{"mark", ir::AttributeKind::integer, std::nullopt, true},
                   {"mincharnum", ir::AttributeKind::integer, std::nullopt, true},
                   {"pad_value", ir::AttributeKind::text, std::nullopt, true},
                   {"separators", ir::AttributeKind::texts},
                   {"tokenexp", ir::AttributeKind::text}},
    .infer = infer_tokenizer,
};

}  // namespace tessera::ops
