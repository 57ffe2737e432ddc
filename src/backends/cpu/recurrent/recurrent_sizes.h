// The sizes of a recurrent layer, and the chunks of its work.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/numbers/checked.h"
#include "ops/recurrent/recurrent.h"

namespace tessera::backends::cpu {

// Sizes of a layer, and the chunks of its units.
struct RecurrentLayer {
  bool batch_first;
  std::int64_t length, batch, features, hidden, gates, directions;
  bool resets_first;       // GRU: the hidden gate multiplies r ⊙ H'
  std::int64_t units = 0;  // of a chunk but the last

  RecurrentLayer(const ops::NodeView& view, std::int64_t weight_bytes)
      : batch_first(ops::read_recurrent(view).batch_first),
        length(view.input(0).shape[batch_first ? 1 : 0]),
        batch(view.input(0).shape[batch_first ? 0 : 1]),
        features(view.input(0).shape[2]),
        // R is [directions, gates * hidden, hidden], or transposed if its elements are bytes.
        hidden(std::min(view.input(2).shape[1], view.input(2).shape[2])),
        gates(ops::gates_of(view.op())),
        directions(view.input(2).shape[0]),
        resets_first(gates == 3 && view.integer("linear_before_reset") == 0) {
    // A chunk is worth a thread from a quarter of a megabyte of weights or two million operations.
    const double weights = static_cast<double>(gates) * static_cast<double>(hidden) * static_cast<double>(hidden);
    const double chunks =
        std::max(weights * static_cast<double>(weight_bytes) / 0x1p18, weights * 2 * static_cast<double>(batch) / 2e6);
    units = static_cast<std::int64_t>(std::ceil(static_cast<double>(hidden) / std::clamp(chunks, 1.0, 16.0)));
    units = std::min(hidden, base::round_up(units, 16));
  }

  std::int64_t chunks() const { return base::ceil_divide(hidden, units); }
  std::int64_t units_of(std::int64_t chunk) const { return std::min(units, hidden - chunk * units); }
  std::int64_t rows() const { return gates * hidden; }
  std::int64_t steps() const { return base::checked_multiply(length, batch); }
  std::int64_t state_elements() const { return base::checked_multiply(batch, hidden); }
  // The rows of X, of Y and of Y_h (and other states) of sequence b at a time. In layout 1 the batch precedes the time.
  std::int64_t row_of_x(std::int64_t time, std::int64_t b) const {
    return batch_first ? b * length + time : time * batch + b;
  }
  std::int64_t row_of_y(std::int64_t time, std::int64_t direction, std::int64_t b) const {
    return batch_first ? (b * length + time) * directions + direction : (time * directions + direction) * batch + b;
  }
  std::int64_t row_of_state(std::int64_t direction, std::int64_t b) const {
    return batch_first ? b * directions + direction : direction * batch + b;
  }

  // Copies the rows of a [gates * hidden, columns] matrix in chunk order (within a chunk, gate by gate), `stride`
  // elements apart.
  template <typename T>
  void reorder(const T* from, std::int64_t columns, T* to, std::int64_t stride) const {
    for (std::int64_t chunk = 0; chunk < chunks(); ++chunk) {
      for (std::int64_t gate = 0; gate < gates; ++gate) {
        const T* row = from + (gate * hidden + chunk * units) * columns;
        // Contiguous lines are copied as one.
        const std::int64_t lines = stride == columns ? 1 : units_of(chunk),
                           length = stride == columns ? units_of(chunk) * columns : columns;
        for (std::int64_t i = 0; i < lines; ++i) std::copy_n(row + i * columns, length, to + i * stride);
        to += units_of(chunk) * stride;
      }
    }
  }
};

// The rows of R in a product.
enum class RecurrentPart : std::uint8_t {
  all,
  update_and_reset,  // of a GRU with resets_first: all gates but the last
  candidate,         // and the last gate
};

}  // namespace tessera::backends::cpu
