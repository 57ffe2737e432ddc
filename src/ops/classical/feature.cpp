#include "ops/classical/feature.h"

#include "base/error.h"
#include "ops/core/builder.h"
#include "ops/core/shape_arguments.h"
#include "ops/core/signatures.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

constexpr TypeSet kLabelTypes{DType::f64, DType::f32, DType::i16, DType::i32, DType::i64, DType::string};
constexpr TypeSet kFeatureTypes{DType::f64, DType::f32, DType::i32, DType::i64, DType::string};

template <typename T>
Tensor list_of_feature(const std::vector<T>& values) {
  return Tensor::from<T>({static_cast<std::int64_t>(values.size())}, std::span<const T>(values));
}

// The one list among <prefix>_tensor, <prefix>_strings, <prefix>_int64s and <prefix>_floats.
Tensor table_column(const AttributeReader& reader, const std::string& prefix) {
  std::vector<Tensor> given;
  if (reader.has_attribute(prefix + "_tensor")) given.push_back(reader.tensor(prefix + "_tensor"));
  if (reader.has_attribute(prefix + "_strings")) given.push_back(list_of_feature(reader.texts(prefix + "_strings")));
  if (reader.has_attribute(prefix + "_int64s")) given.push_back(list_of_feature(reader.integers(prefix + "_int64s")));
  if (reader.has_attribute(prefix + "_floats")) given.push_back(list_of_feature(reader.reals(prefix + "_floats")));
  require(given.size() == 1, ErrorKind::invalid_model, "{} {}_* attributes are given, expected one", given.size(),
          prefix);
  require(kLabelTypes.contains(given[0].dtype()), ErrorKind::invalid_model, "{}_tensor holds {}", prefix,
          name_of(given[0].dtype()));
  return given[0];
}

Tensor fallback_of(const AttributeReader& reader, DType type) {
  if (reader.has_attribute("default_tensor")) {
    const Tensor& value = reader.tensor("default_tensor");
    require(value.dtype() == type && value.elements() == 1, ErrorKind::invalid_model,
            "default_tensor is {}{}, expected one element of {}", name_of(value.dtype()), text_of(value.shape()),
            name_of(type));
    return value;
  }
  switch (type) {
    case DType::string:
      return Tensor::scalar(reader.text("default_string"));
    case DType::f32:
      return Tensor::scalar(reader.real("default_float"));
    case DType::f64:
      return Tensor::scalar(static_cast<double>(reader.real("default_float")));
    case DType::i16:
      return Tensor::scalar(static_cast<std::int16_t>(reader.integer("default_int64")));
    case DType::i32:
      return Tensor::scalar(static_cast<std::int32_t>(reader.integer("default_int64")));
    default:
      return Tensor::scalar(reader.integer("default_int64"));
  }
}

void infer_label_encoder(InferContext& context) {
  const LabelTable table = label_table(context);
  context.check(table.keys.dtype() == context.dtype(0), "the keys are {}, but X is {}", name_of(table.keys.dtype()),
                name_of(context.dtype(0)));
  ir::ValueType type = context.input(0);
  type.dtype = table.values.dtype();
  context.set_output(0, std::move(type));
}

void infer_array_feature_extractor(InferContext& context) {
  const ir::Dims* data = context.dims(0);
  const ir::Dims* indices = context.dims(1);
  if (data == nullptr) return context.set_output_unknown_rank(0, context.dtype(0));
  context.check(!data->empty(), "X must have at least one axis");
  ir::Dims result = *data;
  if (result.size() == 1) result.insert(result.begin(), 1);
  result.back() = indices != nullptr ? ir::product(*indices) : ir::Dim();
  context.set_output(0, context.dtype(0), std::move(result));
}

using Results = std::optional<std::vector<ir::ValueId>>;

// Columns are what Gather takes of the last axis.
Results decompose_array_feature_extractor(GraphBuilder& builder, const AttributeReader&,
                                          std::span<const ir::ValueId> inputs) {
  const ir::Dims* data = builder.dims(inputs[0]);
  if (data == nullptr) return {};
  const bool single_row = data->size() == 1;
  const ir::ValueId columns = builder.add("Reshape", {inputs[1], builder.integers({-1})});
  const ir::ValueId taken = builder.add("Gather", {inputs[0], columns}, {{"axis", std::int64_t{-1}}});
  return {{single_row ? builder.add("Unsqueeze", {taken, builder.integers({0})}) : taken}};
}

Results decompose_binarizer(GraphBuilder& builder, const AttributeReader& reader, std::span<const ir::ValueId> inputs) {
  const DType type = builder.dtype(inputs[0]), wide = type == DType::f32 ? DType::f32 : DType::f64;
  const ir::ValueId above =
      builder.add("Greater", {builder.cast(inputs[0], wide), builder.scalar(reader.real("threshold"), wide)});
  return {{builder.cast(above, type)}};
}

}  // namespace

LabelTable label_table(const AttributeReader& reader) {
  LabelTable table{table_column(reader, "keys"), table_column(reader, "values"), {}};
  require(table.keys.elements() == table.values.elements(), ErrorKind::invalid_model, "{} keys, but {} values",
          table.keys.elements(), table.values.elements());
  table.fallback = fallback_of(reader, table.values.dtype());
  return table;
}

const OpDef label_encoder{
    .name = "ai.onnx.ml::LabelEncoder",
    .since = 4,
    .inputs = {{"X", kLabelTypes}},
    .outputs = {{"Y", kLabelTypes}},
    .attributes = {{"default_float", ir::AttributeKind::real, ir::Attribute(-0.0f)},
                   {"default_int64", ir::AttributeKind::integer, ir::Attribute(std::int64_t{-1})},
                   {"default_string", ir::AttributeKind::text, ir::Attribute(std::string("_Unused"))},
                   {"default_tensor", ir::AttributeKind::tensor},
                   {"keys_floats", ir::AttributeKind::reals},
                   {"keys_int64s", ir::AttributeKind::integers},
                   {"keys_strings", ir::AttributeKind::texts},
                   {"keys_tensor", ir::AttributeKind::tensor},
                   {"values_floats", ir::AttributeKind::reals},
                   {"values_int64s", ir::AttributeKind::integers},
                   {"values_strings", ir::AttributeKind::texts},
                   {"values_tensor", ir::AttributeKind::tensor}},
    .infer = infer_label_encoder,
};

const OpDef array_feature_extractor{
    .name = "ai.onnx.ml::ArrayFeatureExtractor",
    .since = 1,
    .inputs = {{"X", kFeatureTypes, "T"}, {"Y", types::i64}},
    .outputs = {{"Z", kFeatureTypes, "T"}},
    .infer = infer_array_feature_extractor,
    .decompose = decompose_array_feature_extractor,
};

const OpDef binarizer{
    .name = "ai.onnx.ml::Binarizer",
    .since = 1,
    .inputs = {{"X", types::classical_numbers, "T"}},
    .outputs = {{"Y", types::classical_numbers, "T"}},
    .attributes = {{"threshold", ir::AttributeKind::real, ir::Attribute(0.0f)}},
    .infer = infer_same_as_input,
    .operations = operations_per_output<1>,
    .decompose = decompose_binarizer,
};

}  // namespace tessera::ops
