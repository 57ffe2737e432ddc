#include "ops/col2im.h"

#include "backends/backend.h"
#include "backends/reference/movement.h"
#include "backends/reference/numeric.h"
#include "ops/shape_arguments.h"

namespace tessera::backends::reference {

void col2im(KernelContext& context) {
  const Tensor& input = context.input(0);
  const ops::Col2ImGeometry geometry = ops::col2im_geometry(context, input.shape(), ops::integers_of(context.input(1)),
                                                            ops::integers_of(context.input(2)));
  Shape shape{input.shape()[0], geometry.channels};
  shape.insert(shape.end(), geometry.image.begin(), geometry.image.end());
  Tensor& output = context.allocate_output(0, shape);
  // The input is [N * C, block…, positions…].
  Shape columns{input.shape()[0] * geometry.channels};
  columns.insert(columns.end(), geometry.block.begin(), geometry.block.end());
  columns.insert(columns.end(), geometry.positions.begin(), geometry.positions.end());
  const std::size_t axes = geometry.image.size();
  with_wide_type(input.dtype(), [&](auto wide) {
    using Wide = decltype(wide);
    const std::vector<Wide> values = read<Wide>(input);
    std::vector<Wide> sums = transient_vector<Wide>(output.elements());
    for_each_index(columns, [&](const std::vector<std::int64_t>& index, std::int64_t position) {
      std::int64_t to = index[0];
      for (std::size_t i = 0; i < axes; ++i) {
        const std::int64_t pixel =
            index[1 + axes + i] * geometry.strides[i] - geometry.pads_begin[i] + index[1 + i] * geometry.dilations[i];
        if (pixel < 0 || pixel >= geometry.image[i]) return;
        to = to * geometry.image[i] + pixel;
      }
      if constexpr (std::is_floating_point_v<Wide>)
        sums[to] += values[position];
      else
        sums[to] =
            static_cast<Wide>(static_cast<std::uint64_t>(sums[to]) + static_cast<std::uint64_t>(values[position]));
    });
    write(sums, output);
  });
}

}  // namespace tessera::backends::reference
