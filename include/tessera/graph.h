// Making a net in C++, to run, train or save it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tessera/model.h"
#include "tessera/tensor.h"

namespace tessera {

// A tensor of a net under construction.
class NetValue {
 public:
  NetValue() = default;  // an optional input that is left out

 private:
  friend class NetBuilder;
  explicit NetValue(std::int32_t index) : index_(index) {}
  std::int32_t index_ = -1;
};

// The size of a dimension, or the name of one that is open: 28, "batch".
using NetDim = std::variant<std::int64_t, std::string>;

using NetAttribute = std::variant<std::int64_t, double, std::string, Tensor, std::vector<std::int64_t>,
                                  std::vector<double>, std::vector<std::string>>;
using NetAttributes = std::map<std::string, NetAttribute>;

// Adds operators one after the other; the types of what they give are inferred at once. Layers make their weights, f32,
// uniform with the standard deviation sqrt(gain / inputs of an output) (He et al., arXiv:1502.01852), from the seed and
// the order in which they were added. Names of layers name their weights ("fc1.weight"), and must differ. All functions
// throw Error: invalid_model where an operator does not take such operands, invalid_argument for values of another
// builder, unsupported for unknown operators.
class NetBuilder {
 public:
  struct Window {
    std::vector<std::int64_t> kernel;  // of each spatial axis: its number makes convolutions of lines, planes, volumes
    std::int64_t stride = 1, padding = 0, groups = 1;
    bool bias = true;
  };

  explicit NetBuilder(std::string name, std::uint64_t seed = 1);
  ~NetBuilder();
  NetBuilder(NetBuilder&&) noexcept;
  NetBuilder& operator=(NetBuilder&&) noexcept;

  NetValue input(const std::string& name, DType dtype, const std::vector<NetDim>& dims);
  void output(const std::string& name, NetValue value);
  // A constant with these values; of f32 and rank 1 or more training takes it for a weight.
  NetValue constant(Tensor value, const std::string& name = "");
  // A trainable constant of normally distributed random numbers with this mean and standard deviation.
  NetValue weight(const std::string& name, Shape shape, double standard_deviation, double mean = 0);

  // Adds any ONNX operator by its name. Returns its first output, or its first `outputs` outputs.
  NetValue add(const std::string& op, const std::vector<NetValue>& inputs, const NetAttributes& attributes = {});
  std::vector<NetValue> add(const std::string& op, const std::vector<NetValue>& inputs, std::size_t outputs,
                            const NetAttributes& attributes = {});

  // --- layers on [batch, channels, spatial…] ---
  NetValue conv(const std::string& name, NetValue x, std::int64_t channels, const Window& window);
  NetValue batch_norm(const std::string& name, NetValue x);
  NetValue max_pool(NetValue x, std::vector<std::int64_t> kernel, std::int64_t stride, std::int64_t padding = 0);
  NetValue global_average_pool(NetValue x);
  NetValue flatten(NetValue x);  // to [batch, rest]
  // --- layers on […, features] ---
  NetValue linear(const std::string& name, NetValue x, std::int64_t features, bool bias = true);
  NetValue layer_norm(const std::string& name, NetValue x);
  NetValue embedding(const std::string& name, NetValue indices, std::int64_t rows, std::int64_t features);
  // Self-attention of [batch, length, width] with projections of its own; `heads` divides width.
  NetValue attention(const std::string& name, NetValue x, std::int64_t heads);
  // --- element by element ---
  NetValue relu(NetValue x);
  NetValue gelu(NetValue x);
  NetValue softmax(NetValue x, std::int64_t axis = -1);
  NetValue sum(NetValue a, NetValue b);

  // The type of the value as far as inference knows it: "f32[batch, 16, 14, 14]".
  std::string type_of(NetValue value) const;

  // Returns the net with all outputs that were named, and leaves the builder empty. Throws Error(invalid_argument) if
  // no output was named.
  Model build();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
