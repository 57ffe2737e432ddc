#include "plan/share_storage.h"

#include <algorithm>
#include <set>

#include "plan/view_offsets.h"

namespace tessera::plan {
namespace {

class Sharer {
 public:
  Sharer(Plan& plan, Lifetimes& lifetimes) : plan_(plan), lifetimes_(lifetimes) {}

  Slot& slot(std::int32_t index) { return plan_.slots[static_cast<std::size_t>(index)]; }
  std::int64_t bytes(std::int32_t index) { return byte_count(slot(index).type.dtype, *slot(index).type.shape()); }
  bool has_bytes(std::int32_t index) {
    const ir::ValueType& type = slot(index).type;
    return type.is_tensor() && type.dtype != DType::undefined && type.shape().has_value();
  }
  std::int32_t root_of(std::int32_t index) { return slot(index).place == Place::alias ? slot(index).source : index; }
  std::int64_t& first(std::int32_t index) { return lifetimes_.first[static_cast<std::size_t>(index)]; }
  std::int64_t& last(std::int32_t index) { return lifetimes_.last[static_cast<std::size_t>(index)]; }

  // Makes slot `index` an alias. `offset` counts bytes from the start of `source`, which may itself be an alias.
  void alias(std::int32_t index, std::int32_t source, std::int64_t offset) {
    const std::int32_t root = root_of(source);
    slot(index).view_offset = offset + slot(source).view_offset;
    slot(index).place = Place::alias;
    slot(index).source = root;
    first(root) = std::min(first(root), first(index));
    last(root) = std::max(last(root), last(index));
  }

  bool view(Step& step) {
    if (step.inputs.empty() || step.inputs[0] < 0) return false;
    const auto offsets = view_offsets(plan_.graph, plan_.graph.node(step.node), *step.op);
    const std::int32_t source = step.inputs[0];
    if (!offsets || static_cast<std::int32_t>(offsets->size()) != step.output_count ||
        slot(root_of(source)).place == Place::dynamic || !has_bytes(source))
      return false;
    std::int64_t taken = 0, needed = 0;
    for (std::int32_t k = 0; k < step.output_count; ++k) {
      const std::int32_t output = step.first_output + k;
      if (slot(output).place == Place::none) continue;
      if (slot(output).place != Place::arena || (*offsets)[static_cast<std::size_t>(k)] + bytes(output) > bytes(source))
        return false;
      taken += bytes(output);
      needed = std::max(needed, last(output));
    }
    if (step.op->view && taken != bytes(source)) return false;
    // A view is not worth it if it is small but would keep a large value alive.
    const std::int32_t root = root_of(source);
    if (slot(root).place == Place::arena && needed > last(root) && 2 * taken < bytes(root)) return false;
    for (std::int32_t k = 0; k < step.output_count; ++k) {
      if (slot(step.first_output + k).place == Place::arena)
        alias(step.first_output + k, source, (*offsets)[static_cast<std::size_t>(k)]);
    }
    step.kind = StepKind::alias;
    step.cost = {};
    return true;
  }

  // Each output takes the place of at most one operand, and each operand gives its place to at most one output.
  void reuse_dying_inputs(Step& step, std::int64_t index) {
    std::set<std::int32_t> taken;
    for (std::int32_t k = 0; k < step.output_count; ++k) {
      if (slot(step.first_output + k).place == Place::arena) reuse_dying_input(step, k, index, taken);
    }
  }

  bool join(Step& step, std::int64_t index) {
    const std::int32_t result = step.first_output;
    if (step.kind != StepKind::kernel || step.op->name != "Concat" || slot(result).place != Place::arena) return false;
    if (bits_of(slot(result).type.dtype) < 8) return false;  // parts may begin within a byte
    const ir::Node& node = plan_.graph.node(step.node);
    if (!lie_in_their_join(*slot(result).type.shape(), ops::AttributeReader(node, *step.op).integer("axis")))
      return false;
    std::set<std::int32_t> roots;
    for (const std::int32_t input : step.inputs) {
      const std::int32_t root = root_of(input);
      const bool whole = slot(root).place == Place::arena && slot(input).view_offset == 0 && has_bytes(root) &&
                         bytes(input) == bytes(root);
      if (!whole || !roots.insert(root).second || is_written_after(root, index)) return false;
      // If a later step writes over the result, no step may read its parts afterwards.
      if (last(root) > index && is_written_after(result, index)) return false;
    }
    std::int64_t offset = 0;
    for (const std::int32_t input : step.inputs) {
      const std::int32_t root = root_of(input);
      const std::int64_t size = bytes(root);
      for (Slot& each : plan_.slots) {
        if (each.place != Place::alias || each.source != root) continue;
        each.source = result;
        each.view_offset += offset;
      }
      alias(root, result, offset);
      offset += size;
    }
    step.kind = StepKind::alias;
    step.cost = {};
    return true;
  }

 private:
  void reuse_dying_input(Step& step, std::int32_t k, std::int64_t index, std::set<std::int32_t>& taken) {
    const std::int32_t output = step.first_output + k;
    const std::int64_t size = bytes(output);
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      const std::int32_t input = step.inputs[i];
      if (input < 0 ||
          !backends::may_write_over(*step.entry, plan_.graph.node(step.node), static_cast<std::size_t>(k), i))
        continue;
      const std::int32_t root = root_of(input);
      if (slot(root).place != Place::arena || last(root) != index || bytes(root) != size || bytes(input) != size ||
          taken.contains(root) || is_read_twice(step, i))
        continue;
      taken.insert(root);
      return alias(output, input, 0);
    }
  }

  // Whether the kernel reads the bytes of operand i through another operand as well, so that writing over them would
  // change its input: another view of the same bytes may be read at other indices (broadcast against itself), and a
  // kernel of many operands may read it after it has summed the first ones.
  bool is_read_twice(const Step& step, std::size_t i) {
    const std::int32_t input = step.inputs[i];
    return std::any_of(step.inputs.begin(), step.inputs.end(), [&](const std::int32_t& other) {
      const bool same_slot_of_two = other == input && step.inputs.size() <= 2;
      return &other != &step.inputs[i] && other >= 0 && root_of(other) == root_of(input) && !same_slot_of_two;
    });
  }

  // Whether a later step writes into the bytes of the slot.
  bool is_written_after(std::int32_t root, std::int64_t index) {
    for (std::size_t i = static_cast<std::size_t>(index) + 1; i < plan_.steps.size(); ++i) {
      const Step& step = plan_.steps[i];
      for (std::int32_t k = 0; k < step.output_count && step.kind != StepKind::alias; ++k) {
        if (root_of(step.first_output + k) == root) return true;
      }
    }
    return false;
  }

  Plan& plan_;
  Lifetimes& lifetimes_;
};

}  // namespace

void share_storage(Plan& plan, Lifetimes& lifetimes, const PlanOptions& options) {
  Sharer sharer(plan, lifetimes);
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    Step& step = plan.steps[i];
    if (step.output_count == 0 || step.kind != StepKind::kernel) continue;
    if (options.alias_views && sharer.view(step)) continue;
    if (options.in_place) sharer.reuse_dying_inputs(step, static_cast<std::int64_t>(i));
  }
}

bool join_in_place(Plan& plan, Lifetimes& lifetimes) {
  Sharer sharer(plan, lifetimes);
  bool joined = false;
  for (std::size_t i = 0; i < plan.steps.size(); ++i)
    joined = (plan.steps[i].output_count == 1 && sharer.join(plan.steps[i], static_cast<std::int64_t>(i))) || joined;
  return joined;
}

}  // namespace tessera::plan
