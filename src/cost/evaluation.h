// The evaluation of a whole model on a device: every operator's estimate, and their sum.
#pragma once

#include <functional>
#include <vector>

#include "cost/alignment.h"
#include "cost/roofline.h"

namespace tessera::cost {

struct Layer {
  Work work;
  Estimate estimate;
  Alignment alignment;
  double padding_gain_seconds = 0;   // by padding to padded_multiple; less than 0: padding would cost
  std::int64_t padded_multiple = 0;  // of 16 or of 128 bytes, what gains more; 0: nothing to pad
  // The factor for the batch from which on the layer is bound by arithmetic: 1 or less when it is already, 0 when no
  // batch achieves it.
  double batch_factor = 0;
};

struct Evaluation {
  DeviceProfile device;
  Precision precision = Precision::f32;
  std::vector<Layer> layers;
  Total total;
};

// `works` in the precisions_for(device, precision).
Evaluation evaluate(std::vector<Work> works, const DeviceProfile& device, Precision precision,
                    const Surroundings& surroundings = {});

// The work for `factor` times the batch: arithmetic, activations and rows of products grow in proportion; weights do
// not.
Work with_batch(const Work& work, double factor);

}  // namespace tessera::cost
