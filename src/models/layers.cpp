#include "models/layers.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/cpu_info.h"
#include "base/error.h"
#include "base/numbers/philox.h"
#include "base/numbers/units.h"

namespace tessera::models {

LayerBuilder::LayerBuilder(ir::Graph& graph, const BuildOptions& options)
    : builder_(graph), options_(options), most_bytes_(base::usable_memory_bytes()) {}

ir::Dim LayerBuilder::dim(const std::string& name, std::int64_t fallback) const {
  if (const auto found = options_.dims.find(name); found != options_.dims.end()) return found->second;
  return fallback > 0 ? ir::Dim(fallback) : ir::Dim::symbol(name);
}

std::int64_t LayerBuilder::size(const std::string& name, std::int64_t fallback) const {
  const auto found = options_.dims.find(name);
  return found != options_.dims.end() ? found->second : fallback;
}

ValueId LayerBuilder::input(const std::string& name, DType dtype, ir::Dims dims) {
  return graph().add_input(name, ir::ValueType::tensor(dtype, std::move(dims)));
}

void LayerBuilder::output(const std::string& name, ValueId value) {
  graph().value(value).name = name;
  graph().add_output(value);
}

void LayerBuilder::scope(const std::string& prefix) {
  scope_ = prefix.empty() ? "" : prefix + "/";
  builder_.set_name_prefix(scope_);
}

ValueId LayerBuilder::weight(const std::string& name, Shape shape, double standard_deviation, double mean) {
  if (!options_.fill_weights)
    return builder_.constant(Tensor(DType::f32, std::move(shape), nullptr, nullptr), scope_ + name);
  const std::int64_t bytes = Tensor(DType::f32, shape, nullptr, nullptr).bytes();
  require(bytes <= most_bytes_ - weight_bytes_, ErrorKind::over_budget,
          "the net's weights take more than the {} of memory that this process may use",
          base::format_bytes(most_bytes_));
  weight_bytes_ += bytes;
  Tensor tensor(DType::f32, std::move(shape));
  // A uniform distribution over ±sqrt(3)·σ has standard deviation σ; four numbers from each block of the generator.
  const auto center = static_cast<float>(mean),
             scale = static_cast<float>(standard_deviation * std::sqrt(3.0) / 2147483648.0);
  const std::array<std::uint32_t, 2> key{static_cast<std::uint32_t>(options_.seed),
                                         static_cast<std::uint32_t>(options_.seed >> 32)};
  const auto stream = static_cast<std::uint32_t>(next_stream_++);
  float* data = tensor.mutable_data<float>();
  for (std::int64_t i = 0; i < tensor.elements(); i += 4) {
    const auto block =
        base::philox4x32({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), stream, 0}, key);
    for (std::int64_t k = i; k < std::min(i + 4, tensor.elements()); ++k)
      data[k] = center + scale * static_cast<float>(static_cast<std::int32_t>(block[static_cast<std::size_t>(k - i)]));
  }
  return builder_.constant(std::move(tensor), scope_ + name);
}

ValueId LayerBuilder::scaled_weight(const std::string& name, Shape shape, std::int64_t fan_in, double gain) {
  return weight(name, std::move(shape), std::sqrt(gain / static_cast<double>(fan_in)));
}

ValueId LayerBuilder::conv(const std::string& name, ValueId x, std::int64_t in_channels, std::int64_t out_channels,
                           const Window& window) {
  Shape shape{out_channels, in_channels / window.groups};
  std::int64_t fan_in = in_channels / window.groups;
  for (std::int64_t size : window.kernel) {
    shape.push_back(size);
    fan_in *= size;
  }
  const std::size_t axes = window.kernel.size();
  std::vector<ValueId> inputs{x, scaled_weight(name + ".weight", shape, fan_in)};
  if (window.bias) inputs.push_back(weight(name + ".bias", {out_channels}, 0.02));
  return builder_.add("Conv", inputs,
                      {{"kernel_shape", window.kernel},
                       {"strides", std::vector<std::int64_t>(axes, window.stride)},
                       {"pads", std::vector<std::int64_t>(2 * axes, window.padding)},
                       {"group", window.groups}});
}

ValueId LayerBuilder::max_pool(ValueId x, std::vector<std::int64_t> kernel, std::int64_t stride, std::int64_t padding) {
  const std::size_t axes = kernel.size();
  return builder_.add("MaxPool", {x},
                      {{"kernel_shape", kernel},
                       {"strides", std::vector<std::int64_t>(axes, stride)},
                       {"pads", std::vector<std::int64_t>(2 * axes, padding)}});
}

ValueId LayerBuilder::relu(ValueId x) {
  return builder_.add("Relu", {x});
}
ValueId LayerBuilder::sigmoid(ValueId x) {
  return builder_.add("Sigmoid", {x});
}
ValueId LayerBuilder::add(ValueId a, ValueId b) {
  return builder_.add("Add", {a, b});
}
ValueId LayerBuilder::multiply(ValueId a, ValueId b) {
  return builder_.add("Mul", {a, b});
}
ValueId LayerBuilder::concat(std::vector<ValueId> parts, std::int64_t axis) {
  return builder_.add("Concat", std::move(parts), {{"axis", axis}});
}
ValueId LayerBuilder::reshape(ValueId x, std::vector<std::int64_t> shape) {
  return builder_.add("Reshape", {x, builder_.integers(std::move(shape))});
}
ValueId LayerBuilder::transpose(ValueId x, std::vector<std::int64_t> permutation) {
  return builder_.add("Transpose", {x}, {{"perm", std::move(permutation)}});
}
ValueId LayerBuilder::softmax(ValueId x, std::int64_t axis) {
  return builder_.add("Softmax", {x}, {{"axis", axis}});
}

ValueId LayerBuilder::linear(const std::string& name, ValueId x, std::int64_t in_features, std::int64_t out_features,
                             bool bias) {
  const ValueId product =
      builder_.add("MatMul", {x, scaled_weight(name + ".weight", {in_features, out_features}, in_features, 1)});
  return bias ? add(product, weight(name + ".bias", {out_features}, 0.02)) : product;
}

ValueId LayerBuilder::gemm(const std::string& name, ValueId x, std::int64_t in_features, std::int64_t out_features,
                           double gain) {
  return builder_.add("Gemm",
                      {x, scaled_weight(name + ".weight", {out_features, in_features}, in_features, gain),
                       weight(name + ".bias", {out_features}, 0.02)},
                      {{"transB", std::int64_t{1}}});
}

ValueId LayerBuilder::layer_norm(const std::string& name, ValueId x, std::int64_t features) {
  return builder_.add("LayerNormalization",
                      {x, weight(name + ".weight", {features}, 0.05, 1.0), weight(name + ".bias", {features}, 0.05)},
                      {{"epsilon", 1e-5f}});
}

// 0.5·x·(1 + erf(x / √2))
ValueId LayerBuilder::gelu(ValueId x) {
  const ValueId erf = builder_.add("Erf", {builder_.add("Div", {x, builder_.scalar(std::sqrt(2.0))})});
  return multiply(multiply(x, add(erf, builder_.scalar(1.0))), builder_.scalar(0.5));
}

ValueId LayerBuilder::embedding(const std::string& name, ValueId indices, std::int64_t rows, std::int64_t features) {
  return builder_.add("Gather", {weight(name + ".weight", {rows, features}, 0.5), indices});
}

ValueId LayerBuilder::attention(ValueId x, std::int64_t width, std::int64_t heads, ValueId mask) {
  const std::int64_t head_width = width / heads;
  auto split_heads = [&](ValueId projected, std::vector<std::int64_t> permutation) {
    return transpose(reshape(projected, {0, 0, heads, head_width}), std::move(permutation));
  };
  const ValueId query = split_heads(linear("query", x, width, width), {0, 2, 1, 3});
  const ValueId key = split_heads(linear("key", x, width, width), {0, 2, 3, 1});
  const ValueId value = split_heads(linear("value", x, width, width), {0, 2, 1, 3});
  ValueId scores = builder_.add(
      "Div", {builder_.add("MatMul", {query, key}), builder_.scalar(std::sqrt(static_cast<double>(head_width)))});
  if (mask.valid()) scores = add(scores, mask);
  const ValueId mixed = builder_.add("MatMul", {softmax(scores), value});
  return linear("output", reshape(transpose(mixed, {0, 2, 1, 3}), {0, 0, width}), width, width);
}

}  // namespace tessera::models
