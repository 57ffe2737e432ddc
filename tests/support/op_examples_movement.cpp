// Operators that move elements, or write what they compute from some to other places.
#include "support/op_examples.h"

namespace tessera::test {

namespace {

constexpr ops::TypeSet kNoOrder = ops::types::text | ops::types::complex;

}  // namespace

std::vector<OpExample> movement_examples() {
  return {
      {"Concat", {at({2, 3}), at({1, 3}), at({2, 3})}, {{"axis", whole(0)}}},
      {"Concat", {at({3, 5}), at({3, 1})}, {{"axis", whole(1)}}},
      {"Split", {at({2, 5}), integers({2, 3})}, {{"axis", whole(1)}}, 2},
      {"Split", {at({5, 3})}, {{"num_outputs", whole(2)}}, 2},
      {"Expand", {at({3, 1}), integers({2, 3, 4})}},
      {"Tile", {at({2, 3}), integers({2, 3})}},
      {"Gather", {at({3, 5}), at({2, 2}, {0, 2, 1})}},
      {"Gather", {at({3, 5}), at({2}, {0, 2})}, {{"axis", whole(1)}}},
      {"GatherElements", {at({3, 3}), at({2, 3}, {1, 2, 0})}},
      {"GatherElements", {at({2, 3}), at({2, 2}, {1, 2, 0})}, {{"axis", whole(1)}}},
      {"GatherND", {at({2, 3, 2}), as(DType::i64, at({2, 2}, {0, 1, 1, 2}))}},
      {"GatherND", {at({2, 3, 2}), as(DType::i64, at({2, 1}, {0, 1}))}, {{"batch_dims", whole(1)}}},
      {"Pad", {at({2, 3}), integers({1, 2, 0, 1}), number(2)}},
      {"Pad", {at({2, 3}), integers({0, 1}), number(0), at({1}, {1})}, {{"mode", text("edge")}}},
      {"Pad", {at({2, 3}), integers({1, 1, 1, 1})}, {{"mode", text("reflect")}}},
      {"Pad", {at({2, 3}), integers({1, 1, 1, 1})}, {{"mode", text("wrap")}}},
      {"Pad", {at({2, 3}), integers({0, 1, 0, 0})}},
      {"CenterCropPad", {at({4, 3}), at({2}, {2, 5})}},
      {"Reshape", {at({2, 3}), integers({3, -1})}},
      {"Flatten", {at({2, 3, 2})}},
      {"Squeeze", {at({2, 1, 3}), integers({1})}},
      {"Unsqueeze", {at({2, 3}), integers({1})}},
      {"Shape", {at({2, 3})}},
      {"Size", {at({2, 3})}},
      {"Slice", {at({4, 5}), at({2}, {1, 0}), at({2}, {4, 5}), at({2}, {0, 1}), at({2}, {2, 3})}},
      {"Slice", {at({4, 5}), at({1}, {-1}), at({1}, {-5}), at({1}, {1}), at({1}, {-1})}},
      {"Trilu", {at({3, 3}), as(DType::i64, number(1))}},
      {"Trilu", {at({3, 3})}, {{"upper", whole(0)}}},
      {"ReverseSequence", {at({4, 2, 2}), integers({3, 2})}},
      {"ScatterElements", {at({3, 3}), at({2, 3}, {1, 0, 2}), at({2, 3}, {2, 1, 3})}},
      {"ScatterElements", {at({3, 3}), at({2, 3}, {1, 0, 2, 1}), at({2, 3}, {2, 1, 3})}, {{"axis", whole(1)}}},
      {.op = "ScatterElements", .operands = {at({3, 3}), at({2, 3}, {1, 0, 2}), at({2, 3}, {2, 1, 3})}, .attributes = {{"reduction", text("add")}}, .refuses = {"data", ops::types::text, "no arithmetic on elements of type string"}},
      {.op = "ScatterElements", .operands = {at({3, 3}), at({2, 3}, {1, 0, 2}), at({2, 3}, {2, 1, 3})}, .attributes = {{"reduction", text("mul")}}, .refuses = {"data", ops::types::text, "no arithmetic on elements of type string"}},
      {.op = "ScatterElements", .operands = {at({3, 3}), at({2, 3}, {1, 0, 2}), at({2, 3}, {2, 1, 3})}, .attributes = {{"reduction", text("max")}}, .refuses = {"data", kNoOrder, "no arithmetic on elements of type"}},
      {.op = "ScatterND", .operands = {at({3, 2}), as(DType::i64, at({2, 1}, {2, 2})), at({2, 2}, {2, 1, 3})}, .attributes = {{"reduction", text("add")}}, .refuses = {"data", ops::types::text, "no arithmetic on elements of type string"}},
      {.op = "ScatterND", .operands = {at({3, 2}), as(DType::i64, at({2, 1}, {2, 2})), at({2, 2}, {2, 1, 3})}, .attributes = {{"reduction", text("min")}}, .refuses = {"data", kNoOrder, "no arithmetic on elements of type"}},
      {"ScatterND", {at({3, 2}), as(DType::i64, at({2, 1}, {2, 0})), at({2, 2}, {2, 1, 3})}},
      {"TensorScatter", {at({2, 4, 3}), at({2, 2, 3}, {2, 1, 3}), integers({0, 2})}},
      {"TensorScatter", {at({2, 4, 3}), at({2, 2, 3}, {2, 1, 3})}, {{"mode", text("circular")}}},
      {"Transpose", {at({2, 3, 4})}},
      {"Transpose", {at({2, 3, 5})}, {{"perm", whole_list({0, 2, 1})}}},
      {"DepthToSpace", {at({1, 8, 2, 3})}, {{"blocksize", whole(2)}}},
      {"DepthToSpace", {at({1, 8, 2, 3})}, {{"blocksize", whole(2)}, {"mode", text("CRD")}}},
      {"SpaceToDepth", {at({1, 2, 4, 6})}, {{"blocksize", whole(2)}}},
      {"com.microsoft::UnfoldTensor", {at({2, 5})}, {{"size", whole(3)}, {"step", whole(2)}}},
      {"Resize", {at({1, 1, 2, 3}), absent, at({4}, {1, 1, 2, 2})}, {{"mode", text("nearest")}}},
      {"Resize", {at({1, 1, 2, 3}), absent, absent, integers({1, 1, 3, 4})}, {{"mode", text("nearest")}}},
      {"Resize", {at({1, 1, 2, 3}), at({8}, {0, 0, 0, 0, 1, 1, 1, 1}), absent, integers({1, 1, 3, 4})}, {{"mode", text("nearest")}, {"coordinate_transformation_mode", text("tf_crop_and_resize")}}},
      {.op = "Resize", .operands = {at({1, 1, 2, 3}, {1, 2.5, 0, 0.5, 3}), absent, absent, integers({1, 1, 3, 4})}, .attributes = {{"mode", text("linear")}}, .refuses = {"X", ops::types::text, "no arithmetic on elements of type string"}},
      {.op = "Resize", .operands = {at({1, 1, 4, 4}, {1, 2.5, 0, 0.5, 3}), absent, absent, integers({1, 1, 3, 5})}, .attributes = {{"mode", text("cubic")}}, .refuses = {"X", ops::types::text, "no arithmetic on elements of type string"}},
      {"GridSample", {at({1, 1, 3, 3}), at({1, 2, 2, 2}, {-1, 0, 0.5, 1})}, {{"mode", text("nearest")}}},
      {.op = "GridSample", .operands = {at({1, 1, 3, 3}, {1, 2.5, 0, 0.5, 3}), at({1, 2, 2, 2}, {-1, 0, 0.5, 1})}, .refuses = {"X", ops::types::text, "mode is 'linear' for strings"}},
      {.op = "GridSample", .operands = {at({1, 1, 4, 4}, {1, 2.5, 0, 0.5, 3}), at({1, 2, 2, 2}, {-1, 0, 0.5, 1})}, .attributes = {{"mode", text("cubic")}}, .refuses = {"X", ops::types::text, "mode is 'cubic' for strings"}},
      {"AffineGrid", {at({1, 2, 3}), integers({1, 1, 2, 3})}},
      {"RoiAlign", {at({1, 2, 4, 4}), at({2, 4}, {0, 0, 3, 3, 1, 1, 2, 3}), integers({0, 0})}, {{"output_height", whole(2)}, {"output_width", whole(2)}}},
      {"MaxRoiPool", {at({1, 2, 4, 4}), at({2, 5}, {0, 0, 0, 3, 3, 0, 1, 1, 2, 3})}, {{"pooled_shape", whole_list({2, 2})}}},
      {"NonMaxSuppression", {at({1, 3, 4}, {0, 0, 1, 1, 0, 0, 1, 0.9, 2, 2, 3, 3}), at({1, 1, 3}, {0.9, 0.8, 0.7}), integers({2}), at({1}, {0.5}), at({1}, {0.1})}},
      {.op = "Col2Im", .operands = {at({1, 4, 4}), integers({3, 3}), integers({2, 2})}, .refuses = {"input", ops::types::text, "strings have no sum"}},
      {"Col2Im", {at({1, 4, 4}), integers({4, 4}), integers({2, 2})}, {{"strides", whole_list({2, 2})}}},
  };
}

}  // namespace tessera::test
