// Completes a model's configuration by what its file says, and finds contradictions between the two.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "serve/core/config/model_settings.h"
#include "serve/core/config/tensor_reshape.h"
#include "serve/protocol/datatype.h"

namespace tessera::serve {
namespace {

constexpr int kUsualBatch = 8;

bool says_batch(std::string_view name) {
  constexpr std::array<std::string_view, 5> kNames{"N", "n", "bs", "B", "b"};
  return name.find("batch") != std::string_view::npos || std::ranges::find(kNames, name) != kNames.end();
}

bool has_batch(const Model& model) {
  std::string name;
  const auto fits = [&](const ValueDescription& value) {
    if (!value.rank_known || value.dims.empty() || value.dims[0] >= 0) return false;
    if (name.empty()) name = value.dim_names[0];
    return !name.empty() && value.dim_names[0] == name;
  };
  return !model.inputs().empty() && std::ranges::all_of(model.inputs(), fits) &&
         std::ranges::all_of(model.outputs(), fits) && says_batch(name);
}

// The shape that the configuration gives a tensor of the model, without the batch.
template <typename Tensor>
Shape shape_for_model(const Tensor& tensor) {
  if (tensor.has_reshape()) return {tensor.reshape().shape().begin(), tensor.reshape().shape().end()};
  return {tensor.dims().begin(), tensor.dims().end()};
}

// Where the model's sizes are open, the configuration may close them.
void check_dims(const Shape& given, const ValueDescription& value, bool batched, bool is_reshaped) {
  if (!value.rank_known) return;
  const Shape known(value.dims.begin() + (batched ? 1 : 0), value.dims.end());
  const bool fits = given.size() == known.size() &&
                    std::ranges::equal(given, known, [](std::int64_t a, std::int64_t b) { return b < 0 || a == b; });
  require(fits, ErrorKind::invalid_argument, "the configuration says that '{}' has the {} {}, but the model's has {}{}",
          value.name, is_reshaped ? "shape (reshape)" : "dims", to_string(given), to_string(known),
          batched ? " behind the batch, which max_batch_size adds" : "");
}

template <typename Tensor>
void complete_tensor(Tensor& tensor, const ValueDescription& value, bool batched) {
  require(tensor.data_type() == inference::TYPE_INVALID || type_of_config(tensor.data_type()) == value.dtype,
          ErrorKind::invalid_argument, "the configuration says that '{}' is {}, but the model's is {}", value.name,
          inference::DataType_Name(tensor.data_type()), value.type);
  tensor.set_data_type(config_type(value.dtype));
  if (tensor.dims_size() == 0 && !tensor.has_reshape()) {
    for (std::size_t i = batched ? 1 : 0; i < value.dims.size(); ++i) tensor.add_dims(value.dims[i]);
    return;
  }
  for (const std::int64_t size : tensor.dims())
    require(size >= -1, ErrorKind::invalid_argument, "the dims of '{}' have {}, expected a size, or -1 for any",
            value.name, size);
  check_dims(shape_for_model(tensor), value, batched, tensor.has_reshape());
  if (tensor.has_reshape())
    TensorReshape({tensor.dims().begin(), tensor.dims().end()}, shape_for_model(tensor), value.name);
}

template <typename Tensors>
void complete_tensors(Tensors& tensors, const std::vector<ValueDescription>& values, bool batched, const char* what) {
  for (const auto& tensor : tensors) {
    require(std::ranges::find(values, tensor.name(), &ValueDescription::name) != values.end(),
            ErrorKind::invalid_argument, "the configuration has the {} '{}', which the model has not", what,
            tensor.name());
  }
  for (const ValueDescription& value : values) {
    const auto found = std::ranges::find_if(tensors, [&](const auto& tensor) { return tensor.name() == value.name; });
    auto& tensor = found != tensors.end() ? *found : *tensors.Add();
    tensor.set_name(value.name);
    complete_tensor(tensor, value, batched);
  }
}

}  // namespace

void complete_settings(ModelSettings& settings, const Model& model) {
  inference::ModelConfig& config = settings.config;
  if (!settings.batching_is_given && has_batch(model)) {
    config.set_max_batch_size(kUsualBatch);
    if (!config.has_dynamic_batching()) config.mutable_dynamic_batching();
  }
  const bool batched = config.max_batch_size() > 0;
  for (const auto* values : {&model.inputs(), &model.outputs()}) {
    for (const ValueDescription& value : *values) {
      require(value.dtype != DType::undefined && !datatype_name(value.dtype).empty(), ErrorKind::unsupported,
              "'{}' is {}, which the protocol cannot carry", value.name, value.type);
      require(!batched || !value.rank_known || (!value.dims.empty() && value.dims[0] < 0), ErrorKind::invalid_argument,
              "max_batch_size is {}, but '{}' is {}: its first dimension must be open", config.max_batch_size(),
              value.name, value.type);
    }
  }
  complete_tensors(*config.mutable_input(), model.inputs(), batched, "input");
  complete_tensors(*config.mutable_output(), model.outputs(), batched, "output");
  if (config.platform().empty() && config.backend().empty()) config.set_platform("onnxruntime_onnx");
  if (config.backend().empty()) config.set_backend("onnxruntime");
  if (config.default_model_filename().empty()) config.set_default_model_filename("model.onnx");
  if (config.instance_group_size() == 0) {
    inference::ModelInstanceGroup& group = *config.add_instance_group();
    group.set_kind(inference::ModelInstanceGroup::KIND_CPU);
    group.set_count(1);
  }
}

}  // namespace tessera::serve
