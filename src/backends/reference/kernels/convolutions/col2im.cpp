#include "ops/convolutions/col2im.h"

#include <complex>

#include "backends/backend.h"
#include "backends/host/movement.h"
#include "backends/host/numeric.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// Calls body(pixel, position) for each element of the input that is added to a pixel.
template <typename Body>
void for_each_pixel(const ops::Col2ImGeometry& geometry, std::int64_t batch, Body body) {
  // The input is [N * C, block…, positions…].
  Shape columns{batch * geometry.channels};
  columns.insert(columns.end(), geometry.block.begin(), geometry.block.end());
  columns.insert(columns.end(), geometry.positions.begin(), geometry.positions.end());
  const std::size_t axes = geometry.image.size();
  for_each_index(columns, [&](const std::vector<std::int64_t>& index, std::int64_t position) {
    std::int64_t to = index[0];
    for (std::size_t i = 0; i < axes; ++i) {
      const std::int64_t pixel =
          index[1 + axes + i] * geometry.strides[i] - geometry.pads_begin[i] + index[1 + i] * geometry.dilations[i];
      if (pixel < 0 || pixel >= geometry.image[i]) return;
      to = to * geometry.image[i] + pixel;
    }
    body(to, position);
  });
}

template <typename Wide>
void add_blocks(const ops::Col2ImGeometry& geometry, const Tensor& input, Tensor& output) {
  const std::vector<Wide> values = read<Wide>(input);
  std::vector<Wide> sums = transient_vector<Wide>(output.elements());
  for_each_pixel(geometry, input.shape()[0], [&](std::int64_t to, std::int64_t position) {
    if constexpr (std::is_integral_v<Wide>)
      sums[to] = static_cast<Wide>(static_cast<std::uint64_t>(sums[to]) + static_cast<std::uint64_t>(values[position]));
    else sums[to] += values[position];
  });
  write(sums, output);
}

void place_strings(const ops::Col2ImGeometry& geometry, const Tensor& input, Tensor& output) {
  fill_zero(output);
  std::vector<bool> taken(static_cast<std::size_t>(output.elements()));
  for_each_pixel(geometry, input.shape()[0], [&](std::int64_t to, std::int64_t position) {
    require(!taken[to], ErrorKind::unsupported, "blocks of strings overlap, and strings have no sum");
    taken[to] = true;
    copy_element(input, position, output, to);
  });
}

}  // namespace

void col2im(KernelContext& context) {
  const Tensor& input = context.input(0);
  const ops::Col2ImGeometry geometry = ops::col2im_geometry(context, input.shape(), ops::integers_of(context.input(1)),
                                                            ops::integers_of(context.input(2)));
  Shape shape{input.shape()[0], geometry.channels};
  shape.insert(shape.end(), geometry.image.begin(), geometry.image.end());
  Tensor& output = context.allocate_output(0, shape);
  if (input.dtype() == DType::string) return place_strings(geometry, input, output);
  if (is_complex(input.dtype())) return add_blocks<std::complex<double>>(geometry, input, output);
  with_wide_type(input.dtype(), [&](auto wide) { add_blocks<decltype(wide)>(geometry, input, output); });
}

}  // namespace tessera::backends::reference
