#include "ops/rows/dft.h"

#include <complex>
#include <numbers>

#include "backends/backend.h"
#include "backends/host/movement.h"
#include "backends/host/numeric.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

using Complex = std::complex<double>;

// e^(sign 2 pi i k / length) for k in [0, length).
std::vector<Complex> roots_of_unity(std::int64_t length, int sign) {
  std::vector<Complex> roots = transient_vector<Complex>(length);
  for (std::int64_t k = 0; k < length; ++k)
    roots[k] = std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(length));
  return roots;
}

// sum_n signal[n] root^(k n) by definition, where the signal is padded with zeros.
Complex transform_bin(const std::vector<Complex>& signal, const std::vector<Complex>& roots, std::int64_t k) {
  const std::int64_t length = static_cast<std::int64_t>(roots.size());
  Complex sum = 0;
  std::int64_t phase = 0;
  for (const Complex& value : signal) {
    sum += value * roots[phase];
    phase += k;
    if (phase >= length) phase -= length;
  }
  return sum;
}

// The full spectrum of a real signal from its first half: X[length - k] = conj X[k].
std::vector<Complex> complete_spectrum(const std::vector<Complex>& half, std::int64_t length) {
  std::vector<Complex> full(static_cast<std::size_t>(length), 0.0);
  for (std::int64_t k = 0; k <= length / 2 && k < static_cast<std::int64_t>(half.size()); ++k) {
    const bool own_mirror = k == 0 || 2 * k == length;
    full[k] = own_mirror ? Complex(half[k].real()) : half[k];
    if (!own_mirror) full[length - k] = std::conj(half[k]);
  }
  return full;
}

// The complex elements of a tensor whose last axis, of size 1 or 2, holds real and imaginary parts, or of a signal
// [batch, samples].
std::vector<Complex> read_pairs(const Tensor& tensor, bool real = false) {
  const std::vector<double> values = read<double>(tensor);
  if (real || tensor.shape().back() == 1) return {values.begin(), values.end()};
  std::vector<Complex> pairs = transient_vector<Complex>(static_cast<std::int64_t>(values.size() / 2));
  for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i] = {values[2 * i], values[2 * i + 1]};
  return pairs;
}

void write_pairs(const std::vector<Complex>& pairs, Tensor& tensor) {
  const std::size_t parts = static_cast<std::size_t>(tensor.shape().back());
  std::vector<double> values = transient_vector<double>(static_cast<std::int64_t>(pairs.size() * parts));
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    values[parts * i] = pairs[i].real();
    if (parts == 2) values[2 * i + 1] = pairs[i].imag();
  }
  write(values, tensor);
}

}  // namespace

void dft(KernelContext& context) {
  const Tensor& input = context.input(0);
  const auto given = [&](std::size_t i) { return context.has_input(i) ? &context.input(i) : nullptr; };
  const ir::Dims dims = ir::to_dims(input.shape());
  const ops::DftRequest request = ops::dft_request(context, dims, given(1), given(2));
  Tensor& output = context.allocate_output(0, ops::concrete_shape(ops::dft_dims(dims, request)));
  const std::vector<Complex> x = read_pairs(input);
  const Shape in_shape(input.shape().begin(), input.shape().end() - 1),
      out_shape(output.shape().begin(), output.shape().end() - 1);
  const AxisView in = axis_view(in_shape, request.axis), out = axis_view(out_shape, request.axis);
  const std::vector<Complex> roots = roots_of_unity(request.length, request.inverse ? 1 : -1);
  std::vector<Complex> result = transient_vector<Complex>(element_count(out_shape));
  for (std::int64_t line = 0; line < out.outer * out.inner; ++line) {
    const std::int64_t outer = line / out.inner, inner = line % out.inner;
    std::vector<Complex> signal;
    for (std::int64_t i = 0; i < std::min(in.length, request.length); ++i)
      signal.push_back(x[(outer * in.length + i) * in.inner + inner]);
    if (request.inverse && request.onesided) signal = complete_spectrum(signal, request.length);
    for (std::int64_t k = 0; k < out.length; ++k) {
      context.check_stop();
      const Complex bin = transform_bin(signal, roots, k);
      result[(outer * out.length + k) * out.inner + inner] =
          request.inverse ? bin / static_cast<double>(request.length) : bin;
    }
  }
  write_pairs(result, output);
}

// Frame f holds samples from f * step on, times the window; a window shorter than the frame is padded with zeros.
void stft(KernelContext& context) {
  const Tensor& signal = context.input(0);
  const bool windowed = context.has_input(2);
  const ops::StftRequest request =
      ops::stft_request(context, signal.shape(), context.input(1), context.has_input(3) ? &context.input(3) : nullptr,
                        windowed ? std::optional(context.input(2).elements()) : std::nullopt);
  const std::int64_t batches = signal.shape()[0], samples = signal.shape()[1];
  Tensor& output = context.allocate_output(0, {batches, request.frames, request.bins, 2});
  const std::vector<Complex> x = read_pairs(signal, signal.rank() == 2);
  const std::vector<double> window = windowed
                                         ? read<double>(context.input(2))
                                         : std::vector<double>(static_cast<std::size_t>(request.frame_length), 1.0);
  const std::vector<Complex> roots = roots_of_unity(request.frame_length, -1);
  std::vector<Complex> result = transient_vector<Complex>(output.elements() / 2), frame;
  for (std::int64_t f = 0; f < batches * request.frames; ++f) {
    const std::int64_t start = f / request.frames * samples + f % request.frames * request.step;
    frame.clear();
    for (std::int64_t i = 0; i < std::min(request.frame_length, static_cast<std::int64_t>(window.size())); ++i)
      frame.push_back(x[start + i] * window[i]);
    for (std::int64_t k = 0; k < request.bins; ++k) {
      context.check_stop();
      result[f * request.bins + k] = transform_bin(frame, roots, k);
    }
  }
  write_pairs(result, output);
}

}  // namespace tessera::backends::reference
