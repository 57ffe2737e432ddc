// A sequence of convolutions with the channels last as one node, so that a device can compute a few rows of each at a
// time. Not ONNX: passes/fuse/chain_convolutions.cpp makes it, and it decomposes into the convolutions.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef conv_chain;  // "tessera::ConvChain"

inline constexpr std::size_t kMostConvStages = 16;

// A tessera::ChannelsLastConv of images. The values of a chain are numbered: first the node's inputs, then the result
// of each stage. The result of the last stage is the node's output.
struct ConvStage {
  static constexpr std::size_t kOperands = 4;
  std::array<std::int64_t, kOperands> operands{-1, -1, -1,
                                               -1};  // X, W, B and Z; -1: none. W and B are inputs of the node
  std::array<std::int64_t, 2> strides{1, 1}, dilations{1, 1};
  std::array<std::int64_t, 4> pads{};  // as ONNX orders them: above, left, below, right
  std::int64_t group = 1;
  std::string activation;  // of ops/element_wise/fused_activation.h; "": none
  std::array<float, 2> parameters{};
  std::string precision;          // "bf16": as ops/products/rounded_product.h says; "": that of the weights
  std::int64_t output_dtype = 0;  // the result's type; 0: that of the weights
};

// The stages of a node that passed inference.
std::vector<ConvStage> conv_stages(const AttributeReader& reader);
ir::Attributes conv_chain_attributes(const std::vector<ConvStage>& stages);
// A single convolution node as a stage, its operands numbered as its inputs. The node's types must be concrete, of rank
// 4.
ConvStage conv_stage_of(const ir::Graph& graph, const ir::Node& node);

// The stages of a node with concrete types, each as a convolution node of its own.
class ConvStageViews {
 public:
  explicit ConvStageViews(const NodeView& chain);
  std::size_t size() const { return stages_.size(); }
  const ConvStage& stage(std::size_t i) const { return stages_[i]; }
  NodeView view(std::size_t i) const;  // lives as long as this object
  const TensorType& result(std::size_t i) const { return parts_[i].result; }

 private:
  struct Part {
    ir::Node node;
    std::array<TensorType, ConvStage::kOperands> inputs;
    std::array<const Tensor*, ConvStage::kOperands> constants{};
    TensorType result;
  };
  std::vector<ConvStage> stages_;
  std::vector<Part> parts_;
};

}  // namespace tessera::ops
