#include <algorithm>

#include "base/numbers/units.h"
#include "base/text.h"
#include "plan/plan.h"

namespace tessera::plan {
namespace {

using backends::MemorySpace;

std::string printed(const std::string& name) {
  return base::printable(base::shown(name));
}

bool is_written_over(const Plan& plan, std::int32_t variable) {
  return std::ranges::find(plan.written_over, static_cast<std::size_t>(variable)) != plan.written_over.end();
}

std::string place_text(const Plan& plan, const Slot& slot) {
  switch (slot.place) {
    case Place::none:
      return "unused";
    case Place::input:
      return "input";
    case Place::constant:
      return "constant";
    case Place::variable:
      return "variable";
    case Place::arena:
      return fmt::format("{}+{}", slot.space == MemorySpace::device ? "device arena" : "arena", slot.offset);
    case Place::result:
      if (slot.update_of < 0) return "result";
      return fmt::format("{} {}variable '{}'", is_written_over(plan, slot.update_of) ? "over" : "update of",
                         slot.space == MemorySpace::device ? "device " : "",
                         printed(plan.graph.variables()[static_cast<std::size_t>(slot.update_of)].name));
    case Place::dynamic:
      return "dynamic";
    case Place::alias:
      return slot.view_offset == 0 ? fmt::format("alias of %{}", slot.source)
                                   : fmt::format("alias of %{}+{}", slot.source, slot.view_offset);
  }
  return "";
}

std::string kernel_text(const Step& step) {
  switch (step.kind) {
    case StepKind::kernel:
      return std::string(step.entry->name) + (step.is_asynchronous ? ", asynchronous" : "");
    case StepKind::late:
      return "chosen when its inputs are known";
    case StepKind::control:
      return "runs its subgraphs";
    case StepKind::copy:
      return fmt::format("copy to {}, {}, {:.3g} us expected", step.space == MemorySpace::device ? "device" : "host",
                         base::format_bytes(static_cast<std::int64_t>(step.cost.bytes_read)),
                         step.expected_seconds * 1e6);
    case StepKind::alias:
      return "a view, nothing to do";
  }
  return "";
}

std::string stream_text(const Step& step) {
  std::string text = fmt::format(", stream {}", step.stream);
  for (const std::int32_t earlier : step.stream_waits) text += fmt::format(" after {}", earlier);
  return text;
}

const std::string& copied_name(const Plan& plan, const Step& step) {
  return plan.graph.value(plan.slots[static_cast<std::size_t>(step.inputs[0])].value).name;
}

}  // namespace

std::string describe(const Plan& plan, const Step& step) {
  if (step.kind != StepKind::copy) return ir::describe(plan.graph, step.node);
  return fmt::format("copy of '{}' to the {}", base::shown(copied_name(plan, step)),
                     step.space == MemorySpace::device ? "device" : "host");
}

std::string print_plan(const Plan& plan, bool reasons) {
  std::string text;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    const bool copies = step.kind == StepKind::copy;
    const std::string where = plan.uses_device && !copies && step.space == MemorySpace::host ? " (host)" : "";
    const bool is_on_stream = plan.streams > 1 && step.kind != StepKind::alias && where.empty();
    text += fmt::format("{:4}  {:<24} {:<36}", i, copies ? "copy" : printed(plan.graph.node(step.node).op) + where,
                        kernel_text(step) + (is_on_stream ? stream_text(step) : ""));
    for (std::int32_t k = 0; k < step.output_count; ++k) {
      const Slot& slot = plan.slots[static_cast<std::size_t>(step.first_output + k)];
      text += fmt::format(" %{} {} ({})", step.first_output + k,
                          base::printable(base::shortened(ir::to_string(slot.type), 500)), place_text(plan, slot));
    }
    const std::string name = copies ? copied_name(plan, step) : plan.graph.node(step.node).name;
    text += name.empty() ? "\n" : fmt::format("  '{}'\n", printed(name));
    if (!reasons) continue;
    for (const std::string& reason : step.rejected) text += fmt::format("        passed over {}\n", reason);
  }
  text += fmt::format("arena {} (largest live set {}), constants {}\n", base::format_bytes(plan.arena_bytes),
                      base::format_bytes(plan.largest_live_bytes), base::format_bytes(plan.constant_bytes));
  if (plan.uses_device)
    text += fmt::format("device arena {} (largest live set {}), constants on the device {}\n",
                        base::format_bytes(plan.device_arena_bytes), base::format_bytes(plan.largest_live_device_bytes),
                        base::format_bytes(plan.device_constant_bytes));
  return text;
}

}  // namespace tessera::plan
