#include "ops/values/map.h"

#include <algorithm>

#include "base/error.h"

namespace tessera::ops {
namespace {

using Kind = ir::ValueType::Kind;

template <typename T>
Tensor distinct(std::string_view attribute, const std::vector<T>& keys) {
  std::vector<T> sorted = keys;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  require(twice == sorted.end(), ErrorKind::invalid_model, "{} holds '{}' twice", attribute,
          twice == sorted.end() ? T{} : *twice);
  return Tensor::from<T>({static_cast<std::int64_t>(keys.size())}, std::span<const T>(keys));
}

// The value type of map input 0, after checking that its keys are of the given type.
const ir::ValueType& value_of_map(const InferContext& context, DType key) {
  const ir::ValueType& type = context.input(0);
  context.check(type.kind == Kind::map && type.dtype == key, "input 'X' is {}, expected a map with keys of {}",
                ir::to_string(type), name_of(key));
  context.check(type.element->is_tensor(), "the values of input 'X' are {}, expected numbers or strings",
                ir::to_string(*type.element));
  return *type.element;
}

void infer_zip_map(InferContext& context) {
  const Tensor keys = key_list(context);
  if (const ir::Dims* dims = context.dims(0)) {
    context.check(dims->size() == 1 || dims->size() == 2, "X has rank {}, expected 1 or 2", dims->size());
    context.check(dims->back().may_equal(keys.elements()), "X has {} columns for {} keys", ir::to_string(dims->back()),
                  keys.elements());
  }
  context.set_output(
      0, ir::ValueType::sequence(ir::ValueType::map(keys.dtype(), ir::ValueType::tensor(DType::f32, ir::Dims{}))));
}

void infer_dict_vectorizer(InferContext& context) {
  const Tensor keys = key_list(context);
  const DType value = value_of_map(context, keys.dtype()).dtype;
  constexpr TypeSet kinds{DType::i64, DType::f32, DType::f64, DType::string};
  context.check(kinds.contains(value), "the values of input 'X' are {}, expected one of: {}", name_of(value),
                to_string(kinds));
  context.set_output(0, value, {1, keys.elements()});
}

void infer_cast_map(InferContext& context) {
  const DType value = value_of_map(context, DType::i64).dtype;
  context.check(value == DType::f32 || value == DType::string, "the values of input 'X' are {}, expected f32 or string",
                name_of(value));
  const std::string &to = context.text("cast_to"), &form = context.text("map_form");
  context.check(to == "TO_FLOAT" || to == "TO_STRING" || to == "TO_INT64",
                "cast_to '{}' is none of TO_FLOAT, TO_STRING, TO_INT64", to);
  context.check(form == "DENSE" || form == "SPARSE", "map_form '{}' is neither DENSE nor SPARSE", form);
  const std::int64_t length = context.integer("max_map");
  context.check(form == "DENSE" || length >= 0, "max_map is {}", length);
  context.set_output(0,
                     to == "TO_FLOAT"    ? DType::f32
                     : to == "TO_STRING" ? DType::string
                                         : DType::i64,
                     {1, form == "SPARSE" ? ir::Dim(length) : ir::Dim()});
}

constexpr Parameter kMap{.name = "X", .any_kind = true};

}  // namespace

Tensor key_list(const AttributeReader& reader) {
  const bool zip = reader.op().name == zip_map.name;
  const std::string_view integers = zip ? "classlabels_int64s" : "int64_vocabulary",
                         texts = zip ? "classlabels_strings" : "string_vocabulary";
  // Some exporters write the unused list empty.
  const bool has_integers = reader.has_attribute(integers) && !reader.integers(integers).empty();
  const bool has_texts = reader.has_attribute(texts) && !reader.texts(texts).empty();
  require(has_integers != has_texts, ErrorKind::invalid_model, "{} of {} and {} are given, expected one",
          has_integers ? "both" : "none", integers, texts);
  return has_integers ? distinct(integers, reader.integers(integers)) : distinct(texts, reader.texts(texts));
}

// X [rows, keys] or [keys] (one row) → a sequence of one map per row, in the order of the keys.
const OpDef zip_map{
    .name = "ai.onnx.ml::ZipMap",
    .since = 1,
    .inputs = {{"X", {DType::f32}}},
    .outputs = {{.name = "Z", .any_kind = true}},
    .attributes = {{"classlabels_int64s", ir::AttributeKind::integers},
                   {"classlabels_strings", ir::AttributeKind::texts}},
    .infer = infer_zip_map,
};

// A map → [1, keys of the vocabulary]: zero (or empty text) for a key that the map lacks. Keys of the map that the
// vocabulary lacks are left out. ONNX calls the result 1-D; it is a row here, as in onnxruntime, whose models go on
// with rows.
const OpDef dict_vectorizer{
    .name = "ai.onnx.ml::DictVectorizer",
    .since = 1,
    .inputs = {kMap},
    .outputs = {{"Y", {DType::i64, DType::f32, DType::f64, DType::string}}},
    .attributes = {{"int64_vocabulary", ir::AttributeKind::integers}, {"string_vocabulary", ir::AttributeKind::texts}},
    .infer = infer_dict_vectorizer,
};

// A map with integer keys → [1, n]. DENSE: its values by ascending key. SPARSE: n = max_map, each value at the index
// that is its key, zeros elsewhere; a key out of range is an error. The result is a row, as in onnxruntime.
const OpDef cast_map{
    .name = "ai.onnx.ml::CastMap",
    .since = 1,
    .inputs = {kMap},
    .outputs = {{"Y", {DType::f32, DType::i64, DType::string}}},
    .attributes = {{"cast_to", ir::AttributeKind::text, ir::Attribute(std::string("TO_FLOAT"))},
                   {"map_form", ir::AttributeKind::text, ir::Attribute(std::string("DENSE"))},
                   {"max_map", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})}},
    .infer = infer_cast_map,
};

}  // namespace tessera::ops
