#include "ops/dft.h"

#include "base/error.h"
#include "ops/shape_arguments.h"

namespace tessera::ops {
namespace {

constexpr std::int64_t kLongest = std::int64_t{1} << 40;

void check_input(const ir::Dims& input) {
  require(input.size() >= 2 && (input.back().may_equal(1) || input.back().may_equal(2)), ErrorKind::invalid_model,
          "input is {}, expected [..., 1 or 2]", ir::to_string(input));
}

void infer_dft(InferContext& context) {
  const ir::Dims* input = context.dims(0);
  if (input == nullptr) return context.set_output_unknown_rank(0, context.dtype(0));
  check_input(*input);
  if (context.has_input(2) && context.constant(2) == nullptr)
    return context.set_output(0, context.dtype(0), ir::Dims(input->size()));
  DftRequest request = dft_request(context, *input, context.constant(1), context.constant(2));
  const bool unknown = context.has_input(1) && context.constant(1) == nullptr;
  if (unknown) request.length = -1;
  ir::Dims result = dft_dims(*input, request);
  // A length that is not given keeps the axis as it is, named or not.
  const bool whole = !unknown && !context.has_input(1) && !request.onesided;
  if (whole) result[request.axis] = (*input)[request.axis];
  context.set_output(0, context.dtype(0), std::move(result));
}

// The kernel sums directly: a complex multiply-add for each pair of positions.
double operations_dft(const NodeView& view) {
  const Shape& shape = view.input(0).shape;
  const std::int64_t axis = view.constant(2) != nullptr ? normalise_axis(single_integer(*view.constant(2), "axis"),
                                                                         static_cast<std::int64_t>(shape.size()))
                                                        : static_cast<std::int64_t>(shape.size()) - 2;
  return 4 * static_cast<double>(view.output(0).elements()) * static_cast<double>(shape[axis]);
}

void infer_stft(InferContext& context) {
  const ir::Dims* signal = context.dims(0);
  context.check(signal == nullptr || (signal->size() == 3 && ((*signal)[2].may_equal(1) || (*signal)[2].may_equal(2))),
                "signal is {}, expected [batch, samples, 1 or 2]", signal == nullptr ? "" : ir::to_string(*signal));
  ir::Dims result{signal != nullptr ? (*signal)[0] : ir::Dim(), ir::Dim(), ir::Dim(), 2};
  const std::optional<Shape> shape = signal != nullptr ? ir::to_shape(*signal) : std::nullopt;
  const auto window = context.has_input(2) ? known_length(context, 2) : std::nullopt;
  const bool lengths_known =
      (!context.has_input(3) || context.constant(3) != nullptr) && (!context.has_input(2) || window);
  if (shape && lengths_known && context.constant(1) != nullptr) {
    const StftRequest request = stft_request(context, *shape, *context.constant(1), context.constant(3), window);
    result[1] = request.frames;
    result[2] = request.bins;
  }
  context.set_output(0, context.dtype(0), std::move(result));
}

}  // namespace

DftRequest dft_request(const AttributeReader& reader, const ir::Dims& input, const Tensor* dft_length,
                       const Tensor* axis) {
  const std::int64_t rank = static_cast<std::int64_t>(input.size());
  check_input(input);
  DftRequest request{0, -1, reader.integer("inverse") != 0, reader.integer("onesided") != 0};
  request.axis = normalise_axis(axis != nullptr ? single_integer(*axis, "axis") : -2, rank);
  require(request.axis != rank - 1, ErrorKind::invalid_model, "axis {} holds the real and imaginary parts",
          request.axis);
  require(!request.onesided || input.back().may_equal(request.inverse ? 2 : 1), ErrorKind::invalid_model,
          "a onesided {}transform of input {}", request.inverse ? "inverse " : "", ir::to_string(input));
  const ir::Dim& dim = input[request.axis];
  if (dft_length != nullptr) request.length = single_integer(*dft_length, "dft_length");
  else if (dim.is_known()) request.length = request.onesided && request.inverse ? 2 * (dim.value() - 1) : dim.value();
  else return request;
  require(request.length > 0 && request.length < kLongest, ErrorKind::failed, "a transform of length {}",
          request.length);
  return request;
}

ir::Dims dft_dims(const ir::Dims& input, const DftRequest& request) {
  ir::Dims result = input;
  result.back() = request.onesided && request.inverse ? 1 : 2;
  const bool half = request.onesided && !request.inverse;
  if (request.length < 0) result[request.axis] = ir::Dim();
  else result[request.axis] = half ? request.length / 2 + 1 : request.length;
  return result;
}

StftRequest stft_request(const AttributeReader& reader, const Shape& signal, const Tensor& frame_step,
                         const Tensor* frame_length, std::optional<std::int64_t> window_length) {
  StftRequest request;
  request.step = single_integer(frame_step, "frame_step");
  request.frame_length =
      frame_length != nullptr ? single_integer(*frame_length, "frame_length") : window_length.value_or(signal[1]);
  require(request.step > 0, ErrorKind::failed, "frame_step is {}", request.step);
  require(request.frame_length > 0 && request.frame_length <= signal[1], ErrorKind::failed,
          "a frame of {} in a signal of {}", request.frame_length, signal[1]);
  const bool onesided = reader.integer("onesided") != 0;
  require(!onesided || signal[2] == 1, ErrorKind::invalid_model, "a onesided transform of a complex signal");
  request.frames = (signal[1] - request.frame_length) / request.step + 1;
  request.bins = onesided ? request.frame_length / 2 + 1 : request.frame_length;
  return request;
}

const OpDef dft{
    .name = "DFT",
    .since = 20,
    .inputs = {{"input", types::floats, "T1"},
               {"dft_length", types::index, "", optional},
               {"axis", types::i64, "", optional}},
    .outputs = {{"output", types::floats, "T1"}},
    .attributes = {{"inverse", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})},
                   {"onesided", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})}},
    .infer = infer_dft,
    .operations = operations_dft,
};

const OpDef stft{
    .name = "STFT",
    .since = 17,
    .inputs = {{"signal", types::floats, "T1"},
               {"frame_step", types::index, "T2"},
               {"window", types::floats, "T1", optional},
               {"frame_length", types::index, "T2", optional}},
    .outputs = {{"output", types::floats, "T1"}},
    .attributes = {{"onesided", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})}},
    .infer = infer_stft,
    .operations =
        [](const NodeView& view) {
          return 4 * static_cast<double>(view.output(0).elements()) * static_cast<double>(view.output(0).shape[2]);
        },
};

}  // namespace tessera::ops
