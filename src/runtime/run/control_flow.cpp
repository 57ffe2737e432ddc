// Length: the four operators share how bodies run, what they collect and what a body of no iterations would give.
#include "runtime/run/control_flow.h"

#include <algorithm>
#include <deque>

#include "backends/host/movement.h"
#include "base/error.h"
#include "base/numbers/checked.h"
#include "base/run_seed.h"
#include "ops/core/control_flow.h"
#include "ops/core/infer.h"
#include "ops/op_table.h"
#include "runtime/memory/growth_budget.h"
#include "runtime/run/evaluate.h"

namespace tessera::runtime {
namespace {

using backends::ExecutionResources;
using backends::host::axis_view;
using backends::host::AxisView;
using backends::host::copy_run;

// The slice at `index` along `axis`, without that axis.
Tensor slice_at(const Tensor& tensor, std::int64_t axis, std::int64_t index, const ExecutionResources& resources) {
  const AxisView view = axis_view(tensor.shape(), axis);
  Shape shape = tensor.shape();
  shape.erase(shape.begin() + axis);
  Tensor slice = resources.allocate(tensor.dtype(), shape);
  for (std::int64_t o = 0; o < view.outer; ++o)
    copy_run(tensor, (o * view.length + index) * view.inner, slice, o * view.inner, view.inner);
  return slice;
}

// Slices of equal shape, put one behind the other as they come: a loop may have any number of them.
class ScanOutput {
 public:
  // `expected`: how many slices there will be, or a guess.
  ScanOutput(const ExecutionResources& resources, std::int64_t expected)
      : resources_(&resources), expected_(std::max<std::int64_t>(expected, 1)) {}
  ScanOutput(const ScanOutput&) = delete;
  ScanOutput& operator=(const ScanOutput&) = delete;
  ~ScanOutput() { release_characters(); }

  bool empty() const { return count_ == 0; }
  std::int64_t bytes() const { return count_ == 0 ? 0 : slices_.bytes() / capacity() * count_ + character_bytes_; }

  void add(const Tensor& slice) {
    if (count_ == 0) slice_shape_ = slice.shape();
    require(slice.shape() == slice_shape_ && (count_ == 0 || slice.dtype() == slices_.dtype()), ErrorKind::failed,
            "a scan output changes its type from {}{} to {}{} between iterations", name_of(slices_.dtype()),
            to_string(slice_shape_), name_of(slice.dtype()), to_string(slice.shape()));
    if (count_ == capacity()) grow(slice.dtype(), count_ == 0 ? expected_ : base::checked_multiply(count_, 2));
    charge_characters(slice);
    copy_run(slice, 0, slices_, count_ * slice.elements(), slice.elements());
    ++count_;
  }

  // All of them side by side along a new axis; there must be one.
  Tensor stacked(std::int64_t axis, bool reversed) {
    Shape shape = slice_shape_;
    axis = ops::normalise_axis(axis, static_cast<std::int64_t>(shape.size()) + 1);
    if (axis == 0 && !reversed && count_ == capacity()) return with_characters(std::move(slices_));
    shape.insert(shape.begin() + axis, count_);
    Tensor result = resources_->allocate(slices_.dtype(), shape);
    const AxisView view = axis_view(shape, axis);
    const std::int64_t size = view.outer * view.inner;
    for (std::int64_t i = 0; i < count_; ++i) {
      const std::int64_t position = reversed ? count_ - 1 - i : i;
      for (std::int64_t o = 0; o < view.outer; ++o)
        copy_run(slices_, i * size + o * view.inner, result, (o * view.length + position) * view.inner, view.inner);
    }
    return with_characters(std::move(result));
  }

 private:
  std::int64_t capacity() const { return slices_.has_value() ? slices_.shape()[0] : 0; }

  void grow(DType dtype, std::int64_t capacity) {
    Shape shape = slice_shape_;
    shape.insert(shape.begin(), capacity);
    Tensor larger = resources_->allocate(dtype, shape);
    if (count_ > 0) copy_run(slices_, 0, larger, 0, slices_.elements());
    slices_ = std::move(larger);
  }

  void charge_characters(const Tensor& slice) {
    if (slice.dtype() != DType::string || resources_->allocator == nullptr) return;
    std::int64_t bytes = 0;
    for (const std::string& text : slice.values<std::string>()) bytes += static_cast<std::int64_t>(text.size());
    resources_->allocator->charge(bytes);
    character_bytes_ += bytes;
  }

  void release_characters() {
    if (character_bytes_ > 0) resources_->allocator->release(character_bytes_);
    character_bytes_ = 0;
  }

  Tensor with_characters(Tensor result) {
    release_characters();
    return resources_->with_characters(std::move(result));
  }

  const ExecutionResources* resources_;
  std::int64_t expected_, count_ = 0, character_bytes_ = 0;
  Shape slice_shape_;
  Tensor slices_;  // [capacity, slice...]
};

// A scan output of no iterations: its length is 0. `slice` is what the body would give, `known` what was known of the
// stacked output before the run; dimensions that neither knows count 0.
Tensor empty_stack(const ir::ValueType& slice, std::int64_t axis, const ir::ValueType& known) {
  const bool has_rank = slice.is_tensor() && slice.dims,
             known_rank = known.is_tensor() && known.dims && !known.dims->empty();
  ir::Dims dims = has_rank ? *slice.dims : known_rank ? ir::Dims(known.dims->size() - 1) : ir::Dims{};
  axis = ops::normalise_axis(axis, static_cast<std::int64_t>(dims.size()) + 1);
  dims.insert(dims.begin() + axis, ir::Dim(0));
  Shape shape;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const bool looks = known_rank && known.dims->size() == dims.size() && static_cast<std::int64_t>(i) != axis;
    const ir::Dim& dim = looks && (*known.dims)[i].is_known() ? (*known.dims)[i] : dims[i];
    shape.push_back(dim.is_known() ? dim.value() : 0);
  }
  DType dtype = known.is_tensor() ? known.dtype : DType::undefined;
  if (dtype == DType::undefined && slice.is_tensor()) dtype = slice.dtype;
  return Tensor(dtype == DType::undefined ? DType::f32 : dtype, shape);
}

bool read_condition(const Value& value) {
  const Tensor& tensor = value.tensor();
  require(tensor.elements() == 1, ErrorKind::failed, "a condition must be one bool, but has shape {}",
          to_string(tensor.shape()));
  return *tensor.data<bool>();
}

// A scalar under the rank that the body declares for it.
Value scalar_for(const Program& body, std::size_t input, Tensor scalar) {
  return ops::loop_scalar_dims(body.graph(), input).empty() ? scalar : scalar.reshaped({1});
}

// The type of output i of a body that gets these values: what it declares, and what inference adds for the shapes at
// hand.
ir::ValueType output_type(const Program& body, std::size_t i, const std::vector<Value>& inputs) {
  const ir::ValueType& declared = body.graph().value(body.graph().outputs()[i]).type;
  if (declared.is_tensor() && declared.shape()) return declared;
  ir::Graph graph = body.graph();
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (inputs[k].is_tensor()) graph.value(graph.inputs()[k]).type = type_of(inputs[k]);
  }
  try {
    ops::infer_graph(graph);
  } catch (const Error&) {  // a body that could not run on these is not asked to
    return declared;
  }
  return graph.value(graph.outputs()[i]).type;
}

// The run's seed is that of one iteration for as long as this lives.
class IterationSeed {
 public:
  IterationSeed(std::uint64_t& seed, std::uint64_t iteration) : seed_(seed), former_(seed) {
    seed_ = base::seed_of_iteration(former_, iteration);
  }
  ~IterationSeed() { seed_ = former_; }
  IterationSeed(const IterationSeed&) = delete;
  IterationSeed& operator=(const IterationSeed&) = delete;

 private:
  std::uint64_t& seed_;
  const std::uint64_t former_;
};

class ControlFlow {
 public:
  ControlFlow(const ir::Node& node, const ops::OpDef& op, std::span<const Value> inputs,
              std::span<const ir::ValueType> output_types, Subprograms& subprograms, RunControl& control)
      : node_(node),
        attributes_(node, op),
        inputs_(inputs.first(node.formal_inputs())),
        captures_(inputs.begin() + static_cast<std::ptrdiff_t>(node.formal_inputs()), inputs.end()),
        output_types_(output_types),
        subprograms_(subprograms),
        control_(control) {}

  std::vector<Value> run() {
    ++control_.depth;
    require(control_.depth <= 64, ErrorKind::over_budget, "subgraphs are nested more than 64 deep");
    std::vector<Value> outputs = dispatch();
    --control_.depth;
    outputs.resize(node_.outputs.size());
    return outputs;
  }

 private:
  std::vector<Value> dispatch() {
    if (node_.op == "If") return run_body(read_condition(inputs_[0]) ? "then_branch" : "else_branch", {});
    if (node_.op == "Loop") return run_loop();
    if (node_.op == "Scan") return run_scan();
    if (node_.op == "SequenceMap") return run_sequence_map();
    fail(ErrorKind::unsupported, "{} with a subgraph", node_.op);
  }

  Program& body(std::string_view name) { return *subprograms_.find(name)->second; }

  std::vector<Value> run_body(std::string_view name, std::vector<Value> formal) {
    // A body may have no steps of its own that would look.
    control_.resources.check_stop();
    formal.insert(formal.end(), captures_.begin(), captures_.end());
    return body(name).run(formal, control_);
  }

  // One iteration of the node's body, which draws other random numbers than every other iteration.
  std::vector<Value> run_iteration(std::int64_t iteration, std::vector<Value> formal) {
    const IterationSeed seed(control_.resources.seed, static_cast<std::uint64_t>(iteration));
    return run_body("body", std::move(formal));
  }

  std::vector<Value> run_loop() {
    Program& program = body("body");
    const std::size_t carried = inputs_.size() > 2 ? inputs_.size() - 2 : 0;
    const std::size_t scans = program.graph().outputs().size() - 1 - carried;
    const std::int64_t trips =
        inputs_.size() > 0 && inputs_[0].has_value() ? read_trip_count(inputs_[0].tensor()) : INT64_MAX;
    bool condition = inputs_.size() > 1 && inputs_[1].has_value() ? read_condition(inputs_[1]) : true;
    std::vector<Value> state(inputs_.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(2, inputs_.size())),
                             inputs_.end());
    std::deque<ScanOutput> collected = scan_outputs(scans, std::min<std::int64_t>(trips, kFirstScans));
    GrowthBudget budget(control_.max_growing_bytes, runs_all_trips(program) ? trips : -1, state);
    for (std::int64_t i = 0; i < trips && condition; ++i) {
      std::vector<Value> formal{scalar_for(program, 0, Tensor::scalar(i)),
                                scalar_for(program, 1, Tensor::scalar(condition))};
      formal.insert(formal.end(), state.begin(), state.end());
      std::vector<Value> outputs = run_iteration(i, std::move(formal));
      condition = read_condition(outputs[0]);
      for (std::size_t k = 0; k < carried; ++k) state[k] = std::move(outputs[1 + k]);
      std::int64_t scan_bytes = 0;
      for (std::size_t k = 0; k < scans; ++k) {
        collected[k].add(outputs[1 + carried + k].tensor());
        scan_bytes += collected[k].bytes();
      }
      budget.check(i + 1, scan_bytes, state);
    }
    std::vector<Value> formal;
    if (std::ranges::any_of(collected, &ScanOutput::empty)) {
      formal = {scalar_for(program, 0, Tensor::scalar(std::int64_t{0})), scalar_for(program, 1, Tensor::scalar(true))};
      formal.insert(formal.end(), state.begin(), state.end());
    }
    for (std::size_t k = 0; k < scans; ++k)
      state.push_back(collected[k].empty() ? nothing_stacked(program, 1 + carried + k, formal, 0, carried + k)
                                           : collected[k].stacked(0, false));
    return detached(std::move(state));
  }

  // Whether no condition ends the loop before its trip count: the body hands its condition on, or says true.
  static bool runs_all_trips(const Program& program) {
    const ir::Graph& graph = program.graph();
    ir::ValueId condition = graph.outputs()[0];
    while (graph.value(condition).origin == ir::Origin::node) {
      const ir::Node& node = graph.node(graph.value(condition).producer);
      if (ops::op_of(node).name != "Identity") return false;
      condition = node.inputs[0];
    }
    if (condition == graph.inputs()[1]) return true;
    const Tensor* constant = graph.constant(condition);
    return constant != nullptr && constant->elements() == 1 && *constant->data<bool>();
  }

  // Room for so many slices is made before a loop knows how many there will be.
  static constexpr std::int64_t kFirstScans = 16;

  std::deque<ScanOutput> scan_outputs(std::size_t count, std::int64_t expected) const {
    std::deque<ScanOutput> outputs;
    for (std::size_t k = 0; k < count; ++k) outputs.emplace_back(control_.resources, expected);
    return outputs;
  }

  static std::int64_t read_trip_count(const Tensor& tensor) {
    require(tensor.elements() == 1, ErrorKind::failed, "the trip count must be one number, but has shape {}",
            to_string(tensor.shape()));
    return *tensor.data<std::int64_t>();
  }

  // A loop that never ran passes its initial values through: they become the node's own.
  std::vector<Value> detached(std::vector<Value> values) {
    for (Value& value : values) {
      for (const Value& input : inputs_) {
        if (value.is_tensor() && input.is_tensor() && value.tensor().shares_storage_with(input.tensor())) {
          value = control_.resources.copy(value.tensor());
          break;
        }
      }
    }
    return values;
  }

  std::int64_t listed(std::string_view attribute, std::size_t i) const {
    const std::vector<std::int64_t> list = attributes_.integers_or_empty(attribute);
    return i < list.size() ? list[i] : 0;
  }

  std::vector<Value> run_scan() {
    Program& program = body("body");
    const std::size_t scan_inputs = static_cast<std::size_t>(attributes_.integer("num_scan_inputs"));
    require(scan_inputs <= inputs_.size(), ErrorKind::invalid_model, "num_scan_inputs is {}, but there are {} inputs",
            scan_inputs, inputs_.size());
    const std::size_t states = inputs_.size() - scan_inputs;
    const std::size_t scans = program.graph().outputs().size() - states;
    std::vector<Value> state(inputs_.begin(), inputs_.begin() + static_cast<std::ptrdiff_t>(states));
    const std::int64_t length = scan_length(states, scan_inputs);
    std::deque<ScanOutput> collected = scan_outputs(scans, length);
    for (std::int64_t step = 0; step < length; ++step) {
      std::vector<Value> formal = state;
      for (std::size_t k = 0; k < scan_inputs; ++k) {
        const Tensor& sequence = inputs_[states + k].tensor();
        const std::int64_t axis = ops::normalise_axis(listed("scan_input_axes", k), sequence.rank());
        formal.emplace_back(slice_at(sequence, axis, listed("scan_input_directions", k) == 1 ? length - 1 - step : step,
                                     control_.resources));
      }
      std::vector<Value> outputs = run_iteration(step, std::move(formal));
      for (std::size_t k = 0; k < states; ++k) state[k] = std::move(outputs[k]);
      for (std::size_t k = 0; k < scans; ++k) collected[k].add(outputs[states + k].tensor());
    }
    std::vector<Value> formal;
    if (length == 0) formal = values_of_no_step(states, scan_inputs);
    for (std::size_t k = 0; k < scans; ++k) {
      const std::int64_t axis = listed("scan_output_axes", k);
      state.push_back(collected[k].empty() ? nothing_stacked(program, states + k, formal, axis, states + k)
                                           : collected[k].stacked(axis, listed("scan_output_directions", k) == 1));
    }
    return detached(std::move(state));
  }

  // States, and slices of scan inputs that have none: types without elements.
  std::vector<Value> values_of_no_step(std::size_t states, std::size_t scan_inputs) const {
    std::vector<Value> values(inputs_.begin(), inputs_.begin() + static_cast<std::ptrdiff_t>(states));
    for (std::size_t k = 0; k < scan_inputs; ++k) {
      const Tensor& sequence = inputs_[states + k].tensor();
      Shape shape = sequence.shape();
      shape.erase(shape.begin() + ops::normalise_axis(listed("scan_input_axes", k), sequence.rank()));
      values.emplace_back(Tensor(sequence.dtype(), shape, nullptr, nullptr));
    }
    return values;
  }

  // Output `output` of the node, of a body of no iterations whose result `result` it would stack.
  Tensor nothing_stacked(const Program& program, std::size_t result, std::vector<Value> formal, std::int64_t axis,
                         std::size_t output) const {
    formal.insert(formal.end(), captures_.begin(), captures_.end());
    const ir::ValueType known = output < output_types_.size() ? output_types_[output] : ir::ValueType{};
    return empty_stack(output_type(program, result, formal), axis, known);
  }

  std::int64_t scan_length(std::size_t states, std::size_t scan_inputs) const {
    std::int64_t length = -1;
    for (std::size_t k = 0; k < scan_inputs; ++k) {
      const Tensor& sequence = inputs_[states + k].tensor();
      const std::int64_t own =
          sequence
              .shape()[static_cast<std::size_t>(ops::normalise_axis(listed("scan_input_axes", k), sequence.rank()))];
      require(length < 0 || length == own, ErrorKind::failed, "scan inputs have lengths {} and {}", length, own);
      length = own;
    }
    return std::max<std::int64_t>(length, 0);
  }

  std::vector<Value> run_sequence_map() {
    Program& program = body("body");
    const std::size_t length = inputs_[0].elements().size();
    std::vector<std::vector<Value>> results(program.graph().outputs().size());
    for (std::size_t i = 0; i < length; ++i) {
      std::vector<Value> formal;
      for (const Value& input : inputs_) {
        if (input.kind() != Value::Kind::sequence) {
          formal.push_back(input);
          continue;
        }
        require(input.elements().size() == length, ErrorKind::failed,
                "sequences of {} and {} elements are mapped together", length, input.elements().size());
        formal.push_back(input.elements()[i]);
      }
      std::vector<Value> outputs = run_iteration(static_cast<std::int64_t>(i), std::move(formal));
      for (std::size_t k = 0; k < outputs.size(); ++k) results[k].push_back(std::move(outputs[k]));
    }
    std::vector<Value> sequences;
    for (std::vector<Value>& result : results) sequences.push_back(Value::sequence(std::move(result)));
    return sequences;
  }

  const ir::Node& node_;
  const ops::AttributeReader attributes_;
  const std::span<const Value> inputs_;  // formal
  const std::vector<Value> captures_;
  const std::span<const ir::ValueType> output_types_;
  Subprograms& subprograms_;
  RunControl& control_;
};

}  // namespace

std::vector<Value> run_control_flow(const ir::Node& node, const ops::OpDef& op, std::span<const Value> inputs,
                                    std::span<const ir::ValueType> output_types, Subprograms& subprograms,
                                    RunControl& control) {
  return ControlFlow(node, op, inputs, output_types, subprograms, control).run();
}

}  // namespace tessera::runtime
