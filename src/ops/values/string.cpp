#include "ops/values/string.h"

namespace tessera::ops {
namespace {

void infer_string_normalizer(InferContext& context) {
  const std::string& action = context.text("case_change_action");
  context.check(action == "NONE" || action == "LOWER" || action == "UPPER",
                "case_change_action is '{}', expected NONE, LOWER or UPPER", action);
  const ir::Dims* dims = context.dims(0);
  if (dims == nullptr) return context.set_output_unknown_rank(0, DType::string);
  context.check(dims->size() == 1 || (dims->size() == 2 && (*dims)[0].may_equal(1)), "X is {}, expected [C] or [1, C]",
                ir::to_string(*dims));
  ir::Dims result = *dims;
  if (result.size() == 2) result[0] = 1;
  // Without stop words only an empty list changes its length, to one empty string.
  const bool kept =
      (!context.has_attribute("stopwords") || context.texts("stopwords").empty()) && result.back().value() != 0;
  if (!kept || !result.back().is_known()) result.back() = ir::Dim();
  context.set_output(0, DType::string, std::move(result));
}

void infer_string_split(InferContext& context) {
  const ir::Dims* dims = context.dims(0);
  if (dims == nullptr) {
    context.set_output_unknown_rank(0, DType::string);
    context.set_output_unknown_rank(1, DType::i64);
    return;
  }
  ir::Dims result = *dims;
  context.set_output(1, DType::i64, result);
  result.emplace_back();
  context.set_output(0, DType::string, std::move(result));
}

void infer_match(InferContext& context) {
  context.check(context.has_attribute("pattern"), "attribute 'pattern' is missing");
  ir::ValueType type = context.input(0);
  type.dtype = DType::boolean;
  context.set_output(0, std::move(type));
}

}  // namespace

const OpDef string_concat{
    .name = "StringConcat",
    .since = 20,
    .inputs = {{"X", types::text, "T"}, {"Y", types::text, "T"}},
    .outputs = {{"Z", types::text, "T"}},
    .infer = infer_broadcast,
};

const OpDef string_normalizer{
    .name = "StringNormalizer",
    .since = 10,
    .inputs = {{"X", types::text}},
    .outputs = {{"Y", types::text}},
    // The rules of case are Unicode's simple ones whatever `locale` says.
    .attributes = {{"case_change_action", ir::AttributeKind::text, ir::Attribute(std::string("NONE"))},
                   {"is_case_sensitive", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})},
                   {"locale", ir::AttributeKind::text},
                   {"stopwords", ir::AttributeKind::texts}},
    .infer = infer_string_normalizer,
};

const OpDef string_split{
    .name = "StringSplit",
    .since = 20,
    .inputs = {{"X", types::text}},
    .outputs = {{"Y", types::text}, {"Z", types::i64}},
    .attributes = {{"delimiter", ir::AttributeKind::text}, {"maxsplit", ir::AttributeKind::integer}},
    .infer = infer_string_split,
};

const OpDef regex_full_match{
    .name = "RegexFullMatch",
    .since = 20,
    .inputs = {{"X", types::text}},
    .outputs = {{"Y", types::boolean}},
    .attributes = {{"pattern", ir::AttributeKind::text}},
    .infer = infer_match,
};

}  // namespace tessera::ops
