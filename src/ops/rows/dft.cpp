#include "ops/rows/dft.h"

#include "base/error.h"
#include "ops/attention/attention_parts.h"
#include "ops/core/gradient.h"
#include "ops/core/shape_arguments.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

constexpr std::int64_t kLongest = std::int64_t{1} << 40;

void check_input(const ir::Dims& input) {
  require(input.size() >= 2 && (input.back().may_equal(1) || input.back().may_equal(2)), ErrorKind::invalid_model,
          "input is {}, expected [..., 1 or 2]", text_of(input));
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
  // Without a stated length the axis keeps its size, symbolic or not.
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

// The end of the axis cut off, or followed by zeros, so that it has `size` elements.
Term resized(GradientContext& c, Term x, std::int64_t axis, Term size) {
  const Term pads = join({x.integers({0}), size - x.size_of(axis)});
  return {c.builder(), c.builder().add("Pad", {x.id(), pads.id(), {}, x.integers({axis}).id()})};
}

// The transpose of the linear map of real and imaginary parts. For Y = F x it is the conjugate transpose F^H = L F^-1,
// for Y = F^-1 x it is F / L, each cut or zero-padded to the length of the input. Bins that a onesided transform leaves
// out have zero gradient.
void dft_gradient(GradientContext& c) {
  const Term x = c.input(0), g = c.gradient();
  const std::int64_t rank = x.rank();
  const std::int64_t axis = normalise_axis(c.has_input(2) ? c.constant_integers(2).at(0) : -2, rank);
  const bool inverse = c.integer("inverse") != 0, onesided = c.integer("onesided") != 0;
  Term length = c.has_input(1) ? c.input(1).cast(DType::i64).combine("Reshape", {x.integers({1})})
                : inverse      ? g.size_of(axis)
                               : x.size_of(axis);
  const Term scalar_length = length.combine("Reshape", {x.integers({})}), scale = scalar_length.cast(g.dtype());
  Term turned =
      g.combine("DFT", {scalar_length, Term(c.builder(), c.builder().scalar(double(axis), DType::i64))},
                {{"inverse", std::int64_t{inverse ? 0 : 1}}, {"onesided", std::int64_t{inverse && onesided ? 1 : 0}}});
  turned = inverse ? turned / scale : turned * scale;
  if (inverse && onesided) {
    // All bins except those that are their own mirror images stand for two bins.
    std::vector<std::int64_t> behind;
    for (std::int64_t i = axis + 1; i < rank; ++i) behind.push_back(i - axis);
    const Term bins = turned.size_of(axis).combine("Reshape", {x.integers({})});
    const Term bin(c.builder(), c.builder().add("Range", {c.builder().scalar(0, DType::i64), bins.id(),
                                                          c.builder().scalar(1, DType::i64)}));
    const Term own = (bin * (scalar_length - bin)).equals(bin * bin);
    turned = turned * own.choose(g.number(1), g.number(2)).unsqueeze(behind);
  }
  turned = resized(c, turned, axis, x.size_of(axis));
  // The gradient of a real input is the real part.
  c.set(0, turned.combine("Slice", {x.integers({0}), x.size_of(rank - 1), x.integers({rank - 1})}).of_shape(x));
}

// Frames gathered, multiplied by the window and transformed.
std::optional<std::vector<ir::ValueId>> decompose_stft(GraphBuilder& builder, const AttributeReader& reader,
                                                       std::span<const ir::ValueId> inputs) {
  const auto given = [&](std::size_t i) { return i < inputs.size() && inputs[i].valid(); };
  const auto constant = [&](std::size_t i) { return given(i) ? builder.graph().constant(inputs[i]) : nullptr; };
  const std::optional<Shape> signal = builder.type(inputs[0]).shape();
  const std::optional<Shape> window = given(2) ? builder.type(inputs[2]).shape() : std::nullopt;
  if (!signal || constant(1) == nullptr || (given(2) && !window) || (given(3) && constant(3) == nullptr)) return {};
  const StftRequest request = stft_request(reader, *signal, *constant(1), constant(3),
                                           window ? std::optional(element_count(*window)) : std::nullopt);
  const Term given_signal(builder, inputs[0]);
  const Term x = signal->size() == 2 ? given_signal.unsqueeze({2}) : given_signal;
  const Term frame(builder, positions(builder, request.frames)),
      sample(builder, positions(builder, request.frame_length));
  const Term places = frame.unsqueeze({1}) * static_cast<double>(request.step) + sample;
  Term frames = x.combine("Gather", {places}, {{"axis", std::int64_t{1}}});
  if (window) {
    Term weights(builder, inputs[2]);
    const std::int64_t missing = request.frame_length - element_count(*window);
    if (missing != 0) weights = weights.combine("Pad", {x.integers({0, missing})});
    frames = frames * weights.unsqueeze({1});
  }
  return std::vector<ir::ValueId>{
      builder.add("DFT", {frames.id(), {}, builder.scalar(2, DType::i64)}, {{"onesided", reader.integer("onesided")}})};
}

void infer_stft(InferContext& context) {
  const ir::Dims* signal = context.dims(0);
  const bool fits = signal == nullptr || signal->size() == 2 ||
                    (signal->size() == 3 && ((*signal)[2].may_equal(1) || (*signal)[2].may_equal(2)));
  context.check(fits, "signal is {}, expected [batch, samples] or [batch, samples, 1 or 2]", text_of(signal));
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
          "a onesided {}transform of input {}", request.inverse ? "inverse " : "", text_of(input));
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
  require(!onesided || signal.size() == 2 || signal[2] == 1, ErrorKind::invalid_model,
          "a onesided transform of a complex signal");
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
    .gradient = dft_gradient,
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
    .decompose = decompose_stft,
};

}  // namespace tessera::ops
