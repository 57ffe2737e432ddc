// Discrete Fourier transforms of float32 tensors by a mixed-radix fast Fourier transform. Method: the self-sorting
// (Stockham) form of Cooley and Tukey's factorisation ("An algorithm for the machine calculation of complex Fourier
// series", 1965), with one pass per factor of the length: O(n · sum of the prime factors of n).
//
// Complex input is transformed in float32, real input in double. ONNX's test data was computed in these precisions, and
// its absolute tolerance (1e-7) is below the rounding errors of a float32 transform, so that these errors must be
// reproduced.
#include "ops/rows/dft.h"

#include <cmath>
#include <numbers>

#include "backends/cpu/rows/kernels.h"
#include "backends/host/movement.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::cpu {
namespace {

template <typename T>
struct Complex {
  T real = 0, imaginary = 0;
};

template <typename T>
Complex<T> operator+(Complex<T> a, Complex<T> b) {
  return {a.real + b.real, a.imaginary + b.imaginary};
}
template <typename T>
Complex<T> operator-(Complex<T> a, Complex<T> b) {
  return {a.real - b.real, a.imaginary - b.imaginary};
}
template <typename T>
Complex<T> operator*(Complex<T> a, Complex<T> b) {
  return {a.real * b.real - a.imaginary * b.imaginary, a.real * b.imaginary + a.imaginary * b.real};
}

// Twos first, then odd primes in ascending order.
std::vector<std::int64_t> prime_factors(std::int64_t n) {
  std::vector<std::int64_t> factors;
  for (std::int64_t p = 2; p * p <= n; p += p == 2 ? 1 : 2) {
    for (; n % p == 0; n /= p) factors.push_back(p);
  }
  if (n > 1) factors.push_back(n);
  return factors;
}

// The transforms of one length and direction.
template <typename T>
class FastFourierTransform {
 public:
  FastFourierTransform(std::int64_t length, int sign) : length_(length), factors_(prime_factors(length)) {
    for (std::int64_t k = 0; k < length; ++k) {
      const double angle = sign * 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(length);
      roots_.push_back({static_cast<T>(std::cos(angle)), static_cast<T>(std::sin(angle))});
    }
  }

  // Transforms in place; `work` holds `length` elements.
  void run(std::vector<Complex<T>>& data, std::vector<Complex<T>>& work) const {
    std::int64_t done = 1;  // product of the factors of earlier passes
    for (std::int64_t radix : factors_) {
      pass(radix, done, data.data(), work.data());
      done *= radix;
      data.swap(work);
    }
  }

 private:
  // Reads from[i + inner·(j + radix·k)], writes to[i + inner·(k + done·u)] for j, u < radix, k < done, i < inner.
  void pass(std::int64_t radix, std::int64_t done, const Complex<T>* from, Complex<T>* to) const {
    const std::int64_t inner = length_ / (done * radix);
    for (std::int64_t k = 0; k < done; ++k) {
      for (std::int64_t i = 0; i < inner; ++i) {
        butterfly(radix, from + i + inner * radix * k, inner, to + i + inner * k, inner * done);
        for (std::int64_t u = 1; i > 0 && u < radix; ++u) {
          Complex<T>& value = to[i + inner * (k + done * u)];
          value = value * roots_[static_cast<std::size_t>(u * done * i)];
        }
      }
    }
  }

  // One transform of `radix` elements, 2 or an odd prime. Mirrored elements are added and subtracted first, which
  // halves the products: X[u], X[radix − u] = (x0 + Σ cos·(xj + x−j)) ± i·Σ sin·(xj − x−j).
  void butterfly(std::int64_t radix, const Complex<T>* x, std::int64_t x_stride, Complex<T>* y,
                 std::int64_t y_stride) const {
    if (radix == 2) {
      y[0] = x[0] + x[x_stride];
      y[y_stride] = x[0] - x[x_stride];
      return;
    }
    const std::int64_t step = length_ / radix;
    Complex<T> sum = x[0];
    for (std::int64_t j = 1; 2 * j < radix; ++j) sum = sum + (x[j * x_stride] + x[(radix - j) * x_stride]);
    y[0] = sum;
    for (std::int64_t u = 1; 2 * u < radix; ++u) {
      Complex<T> even = x[0], odd;
      for (std::int64_t j = 1; 2 * j < radix; ++j) {
        const Complex<T> root = roots_[static_cast<std::size_t>(j * u % radix * step)];
        const Complex<T> added = x[j * x_stride] + x[(radix - j) * x_stride];
        const Complex<T> taken = x[j * x_stride] - x[(radix - j) * x_stride];
        even = even + Complex<T>{root.real * added.real, root.real * added.imaginary};
        odd = odd + Complex<T>{-root.imaginary * taken.imaginary, root.imaginary * taken.real};
      }
      y[u * y_stride] = even + odd;
      y[(radix - u) * y_stride] = even - odd;
    }
  }

  std::int64_t length_;
  std::vector<std::int64_t> factors_;
  std::vector<Complex<T>> roots_;
};

// Line `line` of the input, cut or padded with zeros to `length`.
template <typename T>
std::vector<Complex<T>> read_line(const Tensor& input, const host::AxisView& view, std::int64_t line,
                                  std::int64_t length) {
  const float* data = input.data<float>();
  const std::int64_t parts = input.shape().back();
  std::vector<Complex<T>> signal(static_cast<std::size_t>(length));
  for (std::int64_t i = 0; i < std::min(view.length, length); ++i) {
    const float* element = data + ((line / view.inner * view.length + i) * view.inner + line % view.inner) * parts;
    signal[static_cast<std::size_t>(i)] = {static_cast<T>(element[0]), parts == 2 ? static_cast<T>(element[1]) : T{0}};
  }
  return signal;
}

template <typename T>
void transform(KernelContext& context) {
  const Tensor& input = context.input(0);
  const auto given = [&](std::size_t i) { return context.has_input(i) ? &context.input(i) : nullptr; };
  const ir::Dims dims = ir::to_dims(input.shape());
  const ops::DftRequest request = ops::dft_request(context, dims, given(1), given(2));
  Tensor& output = context.allocate_output(0, ops::concrete_shape(ops::dft_dims(dims, request)));
  const Shape in_shape(input.shape().begin(), input.shape().end() - 1),
      out_shape(output.shape().begin(), output.shape().end() - 1);
  const host::AxisView in = host::axis_view(in_shape, request.axis), out = host::axis_view(out_shape, request.axis);
  const FastFourierTransform<T> fft(request.length, request.inverse ? 1 : -1);
  const T scale = request.inverse ? T{1} / static_cast<T>(request.length) : T{1};
  float* y = output.mutable_data<float>();
  context.parallel_for(out.outer * out.inner, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<Complex<T>> work(static_cast<std::size_t>(request.length));
    for (std::int64_t line = begin; line < end; ++line) {
      std::vector<Complex<T>> signal = read_line<T>(input, in, line, request.length);
      fft.run(signal, work);
      for (std::int64_t k = 0; k < out.length; ++k) {
        float* element = y + 2 * ((line / out.inner * out.length + k) * out.inner + line % out.inner);
        element[0] = static_cast<float>(signal[static_cast<std::size_t>(k)].real * scale);
        element[1] = static_cast<float>(signal[static_cast<std::size_t>(k)].imaginary * scale);
      }
    }
  });
}

}  // namespace

std::string reject_dft(const ops::NodeView& view) {
  if (view.input(0).dtype != DType::f32)
    return fmt::format("element type {}; expected f32", name_of(view.input(0).dtype));
  if (view.integer("inverse") != 0 && view.integer("onesided") != 0) return "an inverse of half a spectrum";
  return "";
}

void dft(KernelContext& context) {
  const Shape& shape = context.input(0).shape();
  if (!shape.empty() && shape.back() == 1)  // which rejects a scalar
    transform<double>(context);
  else transform<float>(context);
}

}  // namespace tessera::backends::cpu
