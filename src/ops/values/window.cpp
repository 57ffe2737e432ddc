#include "ops/values/window.h"

#include "base/error.h"
#include "ops/core/shape_arguments.h"

namespace tessera::ops {
namespace {

void infer_window(InferContext& context) {
  const DType type = dtype_attribute(context, "output_datatype", types::numbers);
  ir::Dim size;
  if (const Tensor* constant = context.constant(0)) size = positive_count(*constant, "size");
  context.set_output(0, type, {size});
}

void infer_mel_weight_matrix(InferContext& context) {
  const DType type = dtype_attribute(context, "output_datatype", types::numbers);
  ir::Dim bands, bins;
  if (const Tensor* constant = context.constant(0)) bands = positive_count(*constant, "num_mel_bins");
  if (const Tensor* constant = context.constant(1)) bins = positive_count(*constant, "dft_length") / 2 + 1;
  context.set_output(0, type, {bins, bands});
}

OpDef window(std::string_view name) {
  return {.name = name,
          .since = 17,
          .inputs = {{"size", types::index}},
          .outputs = {{"output", types::numbers}},
          .attributes = {{"output_datatype", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})},
                         {"periodic", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})}},
          .infer = infer_window,
          .operations = operations_per_output<4>};
}

}  // namespace

std::int64_t positive_count(const Tensor& tensor, std::string_view name) {
  const std::int64_t count = single_integer(tensor, name);
  require(count >= 0 && count < (std::int64_t{1} << 40), ErrorKind::failed, "{} is {}", name, count);
  return count;
}

const OpDef hann_window = window("HannWindow");
const OpDef hamming_window = window("HammingWindow");
const OpDef blackman_window = window("BlackmanWindow");

const OpDef mel_weight_matrix{
    .name = "MelWeightMatrix",
    .since = 17,
    .inputs = {{"num_mel_bins", types::index, "T1"},
               {"dft_length", types::index, "T1"},
               {"sample_rate", types::index, "T1"},
               {"lower_edge_hertz", types::floats, "T2"},
               {"upper_edge_hertz", types::floats, "T2"}},
    .outputs = {{"output", types::numbers}},
    .attributes = {{"output_datatype", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})}},
    .infer = infer_mel_weight_matrix,
};

}  // namespace tessera::ops
