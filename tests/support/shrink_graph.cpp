#include "support/shrink_graph.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "ir/verify.h"
#include "ops/core/infer.h"
#include "support/evaluate_graph.h"

namespace tessera::test {
namespace {

// The first elements along every axis of that size, so that it has another.
Tensor resized(const Tensor& tensor, std::int64_t from, std::int64_t to) {
  Shape shape = tensor.shape();
  std::ranges::replace(shape, from, to);
  if (shape == tensor.shape() || tensor.dtype() == DType::string || byte_count(tensor.dtype(), {2}) < 2) return tensor;
  Tensor result(tensor.dtype(), shape);
  const std::int64_t width = tensor.bytes() / std::max<std::int64_t>(1, tensor.elements());
  for (std::int64_t i = 0; i < result.elements(); ++i) {
    std::int64_t rest = i, source = 0, stride = 1;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      source += rest % shape[axis] * stride;
      rest /= shape[axis];
      stride *= tensor.shape()[axis];
    }
    std::memcpy(static_cast<char*>(result.mutable_raw()) + i * width,
                static_cast<const char*>(tensor.raw()) + source * width, static_cast<std::size_t>(width));
  }
  return result;
}

void drop_unused_inputs(GraphCase& made) {
  made.graph.remove_dead_and_compact();
  const auto uses = made.graph.compute_uses();
  std::vector<ir::ValueId> kept;
  for (const ir::ValueId id : made.graph.inputs()) {
    if (!uses[static_cast<std::size_t>(id.index)].empty() || made.graph.is_output(id)) kept.push_back(id);
    else made.inputs.erase(made.graph.value(id).name);
  }
  made.graph.set_inputs(kept);
  made.graph.remove_dead_and_compact();
}

class Shrinker {
 public:
  Shrinker(GraphCase failing, const ShowsFault& shows_fault, int questions)
      : best_(std::move(failing)), shows_fault_(shows_fault), questions_(questions) {}

  GraphCase run() {
    bool smaller = true;
    while (smaller && questions_ > 0) {
      smaller = fewer_outputs();
      smaller = nodes_become_inputs() || smaller;
      smaller = nodes_are_passed_by() || smaller;
      smaller = fixed_dimensions() || smaller;
      smaller = smaller_sizes() || smaller;
    }
    return std::move(best_);
  }

 private:
  bool accept(GraphCase candidate) {
    if (questions_-- <= 0) return false;
    try {
      drop_unused_inputs(candidate);
      for (std::size_t i = 0; i < candidate.graph.value_count(); ++i) {
        ir::ValueInfo& info = candidate.graph.value({static_cast<std::int32_t>(i)});
        if (info.origin == ir::Origin::node) info.type = {};
      }
      ops::infer_graph(candidate.graph);
      ir::verify(candidate.graph);
      evaluate_graph(candidate.graph, candidate.inputs);
      if (!shows_fault_(candidate)) return false;
    } catch (const Error&) {
      return false;
    }
    best_ = std::move(candidate);
    return true;
  }

  bool fewer_outputs() {
    if (best_.graph.outputs().size() < 2) return false;
    for (const ir::ValueId id : best_.graph.outputs()) {
      GraphCase candidate = best_;
      candidate.graph.set_outputs({id});
      if (accept(std::move(candidate))) return true;
    }
    return false;
  }

  // From the outputs on; an accepted candidate renumbers, so positions are looked up anew.
  bool nodes_become_inputs() {
    bool any = false;
    for (std::size_t position = best_.graph.node_count(); position-- > 0;) {
      if (position >= best_.graph.node_count()) continue;
      any = accept(with_inputs_for(best_.graph.order()[position])) || any;
    }
    return any;
  }

  GraphCase with_inputs_for(ir::NodeId node) const {
    GraphCase candidate = best_;
    const std::vector<Value> values = evaluate_graph(best_.graph, best_.inputs);
    const auto uses = best_.graph.compute_uses();
    for (const ir::ValueId output : best_.graph.node(node).outputs) {
      if (!output.valid() || uses[static_cast<std::size_t>(output.index)].empty()) continue;
      const Value& value = values[static_cast<std::size_t>(output.index)];
      if (!value.is_tensor()) continue;
      ir::Graph& graph = candidate.graph;
      const std::string name = graph.fresh_name("in");
      const bool computed = value.tensor().dtype() == DType::f32 || value.tensor().dtype() == DType::boolean;
      const ir::ValueId in =
          computed ? graph.add_input(name, ir::ValueType::tensor(value.tensor().dtype(), value.tensor().shape()))
                   : graph.add_constant(value.tensor(), name);
      if (computed) candidate.inputs[name] = value;
      const std::vector<ir::ValueId> outputs = graph.outputs();
      graph.replace_uses(output, in);
      graph.set_outputs(outputs);
    }
    return candidate;
  }

  bool nodes_are_passed_by() {
    bool any = false;
    for (std::size_t position = best_.graph.node_count(); position-- > 0;) {
      if (position >= best_.graph.node_count()) continue;
      const ir::Node node = best_.graph.node(best_.graph.order()[position]);
      for (const ir::ValueId input : node.inputs) {
        // Of another shape it may do as well: inference and the fault say.
        if (!input.valid() || best_.graph.is_constant(input) ||
            best_.graph.value(input).type.dtype != best_.graph.value(node.outputs[0]).type.dtype)
          continue;
        GraphCase candidate = best_;
        candidate.graph.replace_uses(node.outputs[0], input);
        if (accept(std::move(candidate))) {
          any = true;
          break;
        }
      }
    }
    return any;
  }

  bool fixed_dimensions() {
    GraphCase candidate = best_;
    bool symbolic = false;
    for (const ir::ValueId id : candidate.graph.inputs()) {
      ir::ValueInfo& info = candidate.graph.value(id);
      symbolic = symbolic || !info.type.shape();
      const Tensor& tensor = candidate.inputs.find(info.name)->second.tensor();
      info.type = ir::ValueType::tensor(tensor.dtype(), tensor.shape());
    }
    return symbolic && accept(std::move(candidate));
  }

  bool smaller_sizes() {
    std::set<std::int64_t> sizes;
    for (const auto& [name, value] : best_.inputs)
      sizes.insert(value.tensor().shape().begin(), value.tensor().shape().end());
    bool any = false;
    for (const std::int64_t size : sizes) {
      for (const std::int64_t smaller : {std::int64_t{1}, std::int64_t{2}, size / 2, size - 1}) {
        if (smaller >= 1 && smaller < size && accept(with_size(size, smaller))) {
          any = true;
          break;
        }
      }
    }
    return any;
  }

  GraphCase with_size(std::int64_t from, std::int64_t to) const {
    GraphCase candidate = best_;
    for (auto& [name, value] : candidate.inputs) value = resized(value.tensor(), from, to);
    ir::Graph& graph = candidate.graph;
    for (const ir::ValueId id : graph.inputs()) {
      for (ir::Dim& dim : *graph.value(id).type.dims) {
        if (dim == ir::Dim(from)) dim = ir::Dim(to);
      }
    }
    const std::size_t count = graph.value_count();
    std::vector<ir::ValueId> replacements(count);
    for (std::size_t i = 0; i < count; ++i) {
      const Tensor* constant = graph.constant({static_cast<std::int32_t>(i)});
      if (constant == nullptr) continue;
      Tensor changed = resized(*constant, from, to);
      if (changed.dtype() == DType::i64) {  // a size that a shape names
        changed = changed.clone();
        std::ranges::replace(changed.mutable_values<std::int64_t>(), from, to);
      }
      replacements[i] = graph.add_constant(changed);
    }
    graph.replace_uses(replacements);
    return candidate;
  }

  GraphCase best_;
  const ShowsFault& shows_fault_;
  int questions_;
};

}  // namespace

GraphCase shrink(GraphCase failing, const ShowsFault& shows_fault, int most_questions) {
  return Shrinker(std::move(failing), shows_fault, most_questions).run();
}

}  // namespace tessera::test
