#include "protect/secret_shared/shared_program.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/numbers/checked.h"
#include "io/package/byte_stream.h"
#include "tessera/secret_shared.h"

namespace tessera::protect {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 21;  // of a value or weight
constexpr std::int64_t kMostSize = std::int64_t{1} << 20;      // of a dimension
constexpr double kMostProducts = 1e10;                         // of a step
constexpr double kMostWindows = 3e7;                           // elements in all windows of a pooling
constexpr std::size_t kMostSteps = 1024;

void write_axis(io::ByteWriter& out, const ops::WindowAxis& axis) {
  for (const std::int64_t value :
       {axis.input, axis.output, axis.kernel, axis.stride, axis.dilation, axis.pad_begin, axis.pad_end})
    out.u64(static_cast<std::uint64_t>(value));
}

std::int64_t read_size(io::ByteReader& in, std::int64_t least) {
  const std::uint64_t value = in.u64();
  require(value >= static_cast<std::uint64_t>(least) && value <= kMostSize, ErrorKind::invalid_model,
          "a size of {}, expected {} to {}", value, least, kMostSize);
  return static_cast<std::int64_t>(value);
}

ops::WindowAxis read_axis(io::ByteReader& in) {
  ops::WindowAxis axis;
  for (std::int64_t* const value : {&axis.input, &axis.output, &axis.kernel, &axis.stride, &axis.dilation})
    *value = read_size(in, 1);
  for (std::int64_t* const value : {&axis.pad_begin, &axis.pad_end}) *value = read_size(in, 0);
  return axis;
}

void write_shape(io::ByteWriter& out, const Shape& shape) {
  out.u32(static_cast<std::uint32_t>(shape.size()));
  for (const std::int64_t size : shape) out.u64(static_cast<std::uint64_t>(size));
}

Shape read_shape(io::ByteReader& in) {
  Shape shape(in.count(8));
  for (std::int64_t& size : shape) size = read_size(in, 1);
  return shape;
}

std::int64_t product(std::initializer_list<std::int64_t> sizes) {
  std::int64_t result = 1;
  for (const std::int64_t size : sizes) {
    result = base::checked_multiply(result, size);
    require(result <= kMostElements, ErrorKind::over_budget, "a value of more than {} elements", kMostElements);
  }
  return result;
}

bool is_window(SharedStepKind kind) {
  return kind == SharedStepKind::pool_max || kind == SharedStepKind::pool_average;
}

// Every count below fits into 64 bits after this.
void check_step(const SharedStep& step) {
  product({step.batch, step.channels, step.y.input, step.x.input});
  product({step.batch, step.features, step.y.output, step.x.output});
  require(step.channels % step.groups == 0 && step.features % step.groups == 0, ErrorKind::invalid_model,
          "{} channels and {} features in {} groups", step.channels, step.features, step.groups);
  const bool convolves = step.kind == SharedStepKind::convolve;
  if (convolves) product({step.features, step.channels / step.groups, step.y.kernel, step.x.kernel});
  else
    require(step.channels == step.features && step.groups == 1, ErrorKind::invalid_model,
            "{} channels become {}, expected as many", step.channels, step.features);
  if (!convolves && !is_window(step.kind))
    require(step.y.input == step.y.output && step.x.input == step.x.output, ErrorKind::invalid_model,
            "{}x{} elements become {}x{}, expected as many", step.y.input, step.x.input, step.y.output, step.x.output);
  const double products = static_cast<double>(step.outputs()) * static_cast<double>(step.y.kernel) *
                          static_cast<double>(step.x.kernel) *
                          static_cast<double>(convolves ? step.channels / step.groups : 1);
  const double most = is_window(step.kind) ? kMostWindows : kMostProducts;
  require(products <= most, ErrorKind::over_budget, "a step of {:.2g} operations, at most {:.2g} are allowed", products,
          most);
}

void check_program(const SharedProgram& program) {
  const auto elements_of = [&](std::uint32_t value, std::size_t step) {
    require(value <= step, ErrorKind::invalid_model, "step {} reads value {}, which comes later", step, value);
    return value == 0 ? element_count(program.input_shape) : program.steps[value - 1].outputs();
  };
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const SharedStep& step = program.steps[i];
    check_step(step);
    for (const std::uint32_t value : {step.input, step.kind == SharedStepKind::add ? step.second : step.input})
      require(elements_of(value, i) == step.inputs(), ErrorKind::invalid_model,
              "step {} reads a value of {} elements, expected {}", i, elements_of(value, i), step.inputs());
  }
  require(elements_of(program.result, program.steps.size()) == element_count(program.output_shape),
          ErrorKind::invalid_model, "the result has {} elements, expected {}",
          elements_of(program.result, program.steps.size()), element_count(program.output_shape));
}

}  // namespace

std::vector<std::byte> write_program(const SharedProgram& program) {
  check_program(program);
  io::ByteWriter out;
  out.text(program.input);
  out.text(program.output);
  write_shape(out, program.input_shape);
  write_shape(out, program.output_shape);
  out.u32(static_cast<std::uint32_t>(program.steps.size()));
  for (const SharedStep& step : program.steps) {
    out.u32(static_cast<std::uint32_t>(step.kind));
    out.u32(step.input);
    out.u32(step.second);
    out.u32(step.counts_padding ? 1 : 0);
    for (const std::int64_t value : {step.batch, step.channels, step.features, step.groups})
      out.u64(static_cast<std::uint64_t>(value));
    write_axis(out, step.y);
    write_axis(out, step.x);
  }
  out.u32(program.result);
  return out.take();
}

SharedProgram read_program(std::span<const std::byte> bytes) {
  io::ByteReader in(bytes);
  SharedProgram program;
  program.input = in.text();
  program.output = in.text();
  program.input_shape = read_shape(in);
  program.output_shape = read_shape(in);
  for (const Shape* const shape : {&program.input_shape, &program.output_shape}) {
    std::int64_t elements = 1;
    for (const std::int64_t size : *shape) elements = product({elements, size});
  }
  const std::uint32_t steps = in.count(16 + 18 * 8);
  require(steps <= kMostSteps, ErrorKind::over_budget, "{} steps, at most {} are allowed", steps, kMostSteps);
  for (std::uint32_t i = 0; i < steps; ++i) {
    SharedStep step;
    const std::uint32_t kind = in.u32();
    require(kind >= 1 && kind <= static_cast<std::uint32_t>(SharedStepKind::add), ErrorKind::invalid_model,
            "a step of unknown kind {}", kind);
    step.kind = static_cast<SharedStepKind>(kind);
    step.input = in.u32();
    step.second = in.u32();
    step.counts_padding = in.u32() != 0;
    for (std::int64_t* const value : {&step.batch, &step.channels, &step.features, &step.groups})
      *value = read_size(in, 1);
    step.y = read_axis(in);
    step.x = read_axis(in);
    program.steps.push_back(step);
  }
  program.result = in.u32();
  require(in.done(), ErrorKind::invalid_model, "there are bytes behind the program");
  check_program(program);
  return program;
}

void convolve(const SharedStep& step, std::span<const Word> x, std::span<const Word> w, std::span<Word> y) {
  const std::int64_t in_group = step.channels / step.groups, out_group = step.features / step.groups;
  const std::int64_t plane = step.y.input * step.x.input, taps = step.y.kernel * step.x.kernel;
  std::size_t to = 0;
  for (std::int64_t image = 0; image < step.batch; ++image) {
    for (std::int64_t feature = 0; feature < step.features; ++feature) {
      const std::int64_t first = image * step.channels + feature / out_group * in_group;
      for (std::int64_t i = 0; i < step.y.output; ++i) {
        for (std::int64_t j = 0; j < step.x.output; ++j, ++to) {
          Word sum = 0;
          for (std::int64_t tap = 0; tap < taps; ++tap) {
            const std::int64_t row = i * step.y.stride - step.y.pad_begin + tap / step.x.kernel * step.y.dilation;
            const std::int64_t column = j * step.x.stride - step.x.pad_begin + tap % step.x.kernel * step.x.dilation;
            if (row < 0 || row >= step.y.input || column < 0 || column >= step.x.input) continue;
            for (std::int64_t channel = 0; channel < in_group; ++channel)
              sum += x[static_cast<std::size_t>((first + channel) * plane + row * step.x.input + column)] *
                     w[static_cast<std::size_t>((feature * in_group + channel) * taps + tap)];
          }
          y[to] += sum;
        }
      }
    }
  }
}

std::vector<std::vector<std::uint32_t>> windows_of(const SharedStep& step) {
  std::vector<std::vector<std::uint32_t>> windows;
  for (std::int64_t plane = 0; plane < step.batch * step.channels; ++plane) {
    for (std::int64_t i = 0; i < step.y.output; ++i) {
      for (std::int64_t j = 0; j < step.x.output; ++j) {
        std::vector<std::uint32_t>& window = windows.emplace_back();
        for (std::int64_t tap = 0; tap < step.y.kernel * step.x.kernel; ++tap) {
          const std::int64_t row = i * step.y.stride - step.y.pad_begin + tap / step.x.kernel * step.y.dilation;
          const std::int64_t column = j * step.x.stride - step.x.pad_begin + tap % step.x.kernel * step.x.dilation;
          if (row < 0 || row >= step.y.input || column < 0 || column >= step.x.input) continue;
          window.push_back(static_cast<std::uint32_t>((plane * step.y.input + row) * step.x.input + column));
        }
        require(!window.empty(), ErrorKind::invalid_model, "a window of a pooling lies in the padding alone");
      }
    }
  }
  return windows;
}

Word average_factor(const SharedStep& step, std::size_t elements_in_window) {
  const double count = step.counts_padding ? static_cast<double>(step.y.kernel * step.x.kernel)
                                           : static_cast<double>(elements_in_window);
  return static_cast<Word>(std::llround(std::ldexp(1.0, kSharedFractionBits) / count));
}

}  // namespace tessera::protect
