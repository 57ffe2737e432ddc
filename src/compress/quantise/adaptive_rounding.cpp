#include "compress/quantise/adaptive_rounding.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "ops/core/builder.h"

namespace tessera::compress {
namespace {

using ir::ValueId;

// The rectified sigmoid h(V) = clip(sigmoid(V) (ζ - γ) + γ, 0, 1), equation 23.
constexpr double kStretch = 1.2, kShift = -0.1;
constexpr double kLearningRate = 0.05, kPenalty = 1, kFirstDecay = 0.9, kSecondDecay = 0.999;
constexpr double kWarmUp = 0.2;  // fraction of the steps without a penalty
constexpr double kSteepest = 20, kFlattest = 2;

std::int64_t group_of(const RoundingProblem& problem, std::int64_t row) {
  return row / problem.weights.shape()[1];
}

// The data of row `row` when the rows of all groups are numbered consecutively.
const float* row_of(const Tensor& tensor, std::int64_t row) {
  return tensor.data<float>() + row * tensor.shape()[2];
}

std::int64_t rows_of(const RoundingProblem& problem) {
  return problem.weights.shape()[0] * problem.weights.shape()[1];
}

float scale_at(const RoundingProblem& problem, std::int64_t row, std::int64_t input) {
  return row_of(problem.scales, row)[input / problem.block];
}

const float* moments_of(const RoundingProblem& problem, std::int64_t row) {
  const std::int64_t inputs = problem.weights.shape()[2];
  return problem.moments.data<float>() + group_of(problem, row) * inputs * inputs;
}

// One row of integers with its error d and the product M d, both kept up to date while integers change.
class Row {
 public:
  Row(const RoundingProblem& problem, std::int64_t row, std::span<std::int8_t> integers)
      : problem_(problem), row_(row), moments_(moments_of(problem, row)), integers_(integers) {
    const std::size_t inputs = integers.size();
    error_.resize(inputs);
    product_.assign(inputs, 0);
    for (std::size_t i = 0; i < inputs; ++i) {
      error_[i] = row_of(problem.weights, row)[i] - scale(i) * static_cast<float>(integers[i]);
      add(i, error_[i]);
    }
  }

  double squared() const {
    double sum = 0;
    for (std::size_t i = 0; i < error_.size(); ++i)
      sum += static_cast<double>(error_[i]) * static_cast<double>(product_[i]);
    return sum;
  }

  // Switches single weights to the other integer while that lowers the error, for a few rounds.
  void descend() {
    constexpr int kRounds = 4;
    for (int round = 0; round < kRounds; ++round) {
      bool any = false;
      for (std::size_t i = 0; i < error_.size(); ++i) any = improve(i) || any;
      if (!any) return;
    }
  }

 private:
  float scale(std::size_t i) const { return scale_at(problem_, row_, static_cast<std::int64_t>(i)); }

  void add(std::size_t i, float change) {
    const float* column = moments_ + i * error_.size();
    for (std::size_t j = 0; j < product_.size(); ++j) product_[j] += change * column[j];
  }

  bool improve(std::size_t i) {
    const int side = error_[i] > 0 ? 1 : -1, other = integers_[i] + side;
    if (other < problem_.least || other > problem_.most) return false;
    const float change = -static_cast<float>(side) * scale(i);
    if (2 * change * product_[i] + change * change * moments_[i * error_.size() + i] >= 0) return false;
    integers_[i] = static_cast<std::int8_t>(other);
    error_[i] += change;
    add(i, change);
    return true;
  }

  const RoundingProblem& problem_;
  std::int64_t row_;
  const float* moments_;
  std::span<std::int8_t> integers_;
  std::vector<float> error_, product_;
};

// One step of Adam for some rows of each group, as a graph. `Chunk` has the names of its inputs.
Model step_graph(const Tensor& moments, std::int64_t rows) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const Shape shape{moments.shape()[0], rows, moments.shape()[1]};
  const auto input = [&](const char* name) { return graph.add_input(name, ir::ValueType::tensor(DType::f32, shape)); };
  const auto number = [&](const char* name) {
    return graph.add_input(name, ir::ValueType::tensor(DType::f32, Shape{}));
  };
  const auto scalar = [&](double value) { return builder.scalar(value); };
  const auto op = [&](const char* name, std::vector<ValueId> inputs) { return builder.add(name, std::move(inputs)); };
  const ValueId v = input("v"), first = input("first"), second = input("second"), fraction = input("fraction"),
                scale = input("scale"), slope = input("slope");
  const ValueId sigmoid = op("Sigmoid", {v});
  const ValueId h =
      op("Clip", {op("Add", {op("Mul", {sigmoid, scalar(kStretch)}), scalar(kShift)}), scalar(0), scalar(1)});
  const ValueId difference = op("Mul", {op("Sub", {fraction, h}), scale});
  const ValueId error = op("Mul", {op("MatMul", {difference, builder.constant(moments)}), slope});
  // The derivative d(1 - |a|^β)/dh for a = 2 h - 1.
  const ValueId a = op("Sub", {op("Mul", {h, scalar(2)}), scalar(1)}), beta = number("beta");
  const ValueId steep = op("Mul", {op("Pow", {op("Abs", {a}), op("Sub", {beta, scalar(1)})}), op("Sign", {a})});
  const ValueId penalty = op("Mul", {op("Mul", {steep, beta}), number("penalty")});
  const ValueId inside =
      builder.cast(op("And", {op("Greater", {h, scalar(0)}), op("Less", {h, scalar(1)})}), DType::f32);
  const ValueId moves =
      op("Mul", {op("Mul", {op("Mul", {sigmoid, op("Sub", {scalar(1), sigmoid})}), scalar(kStretch)}), inside});
  const ValueId gradient = op("Mul", {op("Sub", {error, penalty}), moves});
  const auto average = [&](ValueId old, ValueId value, double decay) {
    return op("Add", {op("Mul", {old, scalar(decay)}), op("Mul", {value, scalar(1 - decay)})});
  };
  const ValueId m = average(first, gradient, kFirstDecay),
                s = average(second, op("Mul", {gradient, gradient}), kSecondDecay);
  const ValueId root = op("Add", {op("Sqrt", {op("Mul", {s, number("second_scale")})}), scalar(1e-8)});
  const ValueId moved = op("Sub", {v, op("Div", {op("Mul", {m, number("rate")}), root})});
  const char* names[] = {"v_next", "first_next", "second_next"};
  const ValueId results[] = {moved, m, s};
  for (std::size_t i = 0; i < std::size(results); ++i) {
    graph.value(results[i]).name = names[i];
    graph.add_output(results[i]);
  }
  return Model(std::make_shared<const ir::Graph>(std::move(graph)));
}

Tensor zeros(const Shape& shape) {
  Tensor tensor(DType::f32, shape);
  std::ranges::fill(tensor.mutable_values<float>(), 0.0f);
  return tensor;
}

// Rows [from, from + rows) of each group. Every step of the graph takes the same number of rows; those beyond the last
// are zeros.
class Chunk {
 public:
  Chunk(const RoundingProblem& problem, std::int64_t from, std::int64_t rows)
      : problem_(problem), from_(from), rows_(std::min(rows, problem.weights.shape()[1] - from)) {
    const Shape shape{problem.weights.shape()[0], rows, problem.weights.shape()[2]};
    for (const char* name : {"v", "first", "second", "fraction", "scale", "slope"}) values_[name] = zeros(shape);
    floors_ = Tensor(DType::i8, shape);
    std::ranges::fill(floors_.mutable_values<std::int8_t>(), std::int8_t{0});
    each_row([&](std::int64_t row, std::int64_t at) { fill(row, at); });
  }

  void optimise(Session& session, int steps, const std::function<void()>& progress) {
    for (int step = 0; step < steps; ++step) {
      const double done = static_cast<double>(step) / steps, past = std::max(0.0, (done - kWarmUp) / (1 - kWarmUp)),
                   beta = kSteepest + (kFlattest - kSteepest) * past;
      values_["beta"] = Tensor::scalar(static_cast<float>(beta));
      values_["penalty"] = Tensor::scalar(static_cast<float>(done < kWarmUp ? 0 : 2 * kPenalty));
      values_["rate"] = Tensor::scalar(static_cast<float>(kLearningRate / (1 - std::pow(kFirstDecay, step + 1))));
      values_["second_scale"] = Tensor::scalar(static_cast<float>(1 / (1 - std::pow(kSecondDecay, step + 1))));
      NamedValues results = session.run(values_);
      for (const char* name : {"v", "first", "second"})
        values_[name] = results.at(std::string(name) + "_next").tensor();
      progress();
    }
  }

  // Writes the chosen integers: 1 for each weight that is rounded up, added to its floor.
  void write(Tensor& integers) const {
    const std::int64_t inputs = problem_.weights.shape()[2];
    const float* v = values_.at("v").tensor().data<float>();
    each_row([&](std::int64_t row, std::int64_t at) {
      for (std::int64_t i = 0; i < inputs; ++i)
        integers.mutable_data<std::int8_t>()[row * inputs + i] =
            static_cast<std::int8_t>(floors_.data<std::int8_t>()[at + i] + (v[at + i] >= 0 ? 1 : 0));
    });
  }

 private:
  // Calls `each` with each row and the position of its first element in this chunk's tensors.
  void each_row(const std::function<void(std::int64_t row, std::int64_t at)>& each) const {
    const Shape& shape = floors_.shape();
    for (std::int64_t group = 0; group < shape[0]; ++group) {
      for (std::int64_t i = 0; i < rows_; ++i)
        each(group * problem_.weights.shape()[1] + from_ + i, (group * shape[1] + i) * shape[2]);
    }
  }

  void fill(std::int64_t row, std::int64_t at) {
    const std::int64_t inputs = problem_.weights.shape()[2];
    const float *weights = row_of(problem_.weights, row), *moments = moments_of(problem_, row);
    double size = 0;  // of the error of one unit in the last place, on average over the row
    for (std::int64_t i = 0; i < inputs; ++i) {
      const double scale = static_cast<double>(scale_at(problem_, row, i));
      size += scale * scale * static_cast<double>(moments[i * inputs + i]) / static_cast<double>(inputs);
    }
    const auto write = [&](const char* name, std::int64_t i, double value) {
      values_.at(name).tensor().mutable_data<float>()[at + i] = static_cast<float>(value);
    };
    for (std::int64_t i = 0; i < inputs; ++i) {
      const double scale = static_cast<double>(scale_at(problem_, row, i)),
                   ratio = static_cast<double>(weights[i]) / scale,
                   below = std::clamp(std::floor(ratio), static_cast<double>(problem_.least), problem_.most - 1.0),
                   fraction = ratio - below, start = std::clamp(fraction, 0.01, 0.99);
      floors_.mutable_data<std::int8_t>()[at + i] = static_cast<std::int8_t>(below);
      write("v", i, -std::log(kStretch / (start - kShift) - 1));
      write("fraction", i, fraction);
      write("scale", i, scale);
      write("slope", i, size > 0 ? -2 * scale / size : 0);
    }
  }

  const RoundingProblem& problem_;
  std::int64_t from_, rows_;
  NamedValues values_;
  Tensor floors_;
};

}  // namespace

Tensor round_to_nearest(const RoundingProblem& problem) {
  const std::int64_t inputs = problem.weights.shape()[2];
  Tensor integers(DType::i8, problem.weights.shape());
  for (std::int64_t row = 0; row < rows_of(problem); ++row) {
    for (std::int64_t i = 0; i < inputs; ++i)
      integers.mutable_data<std::int8_t>()[row * inputs + i] = static_cast<std::int8_t>(
          std::clamp(std::nearbyint(row_of(problem.weights, row)[i] / scale_at(problem, row, i)),
                     static_cast<float>(problem.least), static_cast<float>(problem.most)));
  }
  return integers;
}

Tensor round_adaptively(const RoundingProblem& problem, const RoundingOptions& options) {
  constexpr std::int64_t kMostElements = std::int64_t{1} << 20;
  const Shape& shape = problem.weights.shape();
  const std::int64_t chunk = std::clamp<std::int64_t>(kMostElements / std::max<std::int64_t>(1, shape[0] * shape[2]), 1,
                                                      std::max<std::int64_t>(1, shape[1])),
                     chunks = (shape[1] + chunk - 1) / chunk;
  Tensor integers = round_to_nearest(problem), moved(DType::i8, shape);
  if (integers.elements() == 0) return integers;
  Session session(step_graph(problem.moments, chunk), options.session);
  double done = 0;
  const double step = 1.0 / (static_cast<double>(chunks) * options.steps);
  for (std::int64_t from = 0; from < shape[1]; from += chunk) {
    Chunk rows(problem, from, chunk);
    rows.optimise(session, options.steps, [&] {
      if (options.progress) options.progress(done += step);
    });
    rows.write(moved);
  }
  const auto inputs = static_cast<std::size_t>(shape[2]);
  for (std::int64_t row = 0; row < rows_of(problem); ++row) {
    const std::size_t at = static_cast<std::size_t>(row) * inputs;
    const std::span<std::int8_t> nearest = integers.mutable_values<std::int8_t>().subspan(at, inputs),
                                 other = moved.mutable_values<std::int8_t>().subspan(at, inputs);
    Row better(problem, row, other);
    better.descend();
    if (better.squared() < Row(problem, row, nearest).squared()) std::ranges::copy(other, nearest.begin());
  }
  return integers;
}

double output_error(const RoundingProblem& problem, const Tensor& integers) {
  Tensor copy = integers.clone();
  const auto inputs = static_cast<std::size_t>(problem.weights.shape()[2]);
  double sum = 0;
  for (std::int64_t row = 0; row < rows_of(problem); ++row)
    sum += Row(problem, row, copy.mutable_values<std::int8_t>().subspan(static_cast<std::size_t>(row) * inputs, inputs))
               .squared();
  return sum;
}

}  // namespace tessera::compress
