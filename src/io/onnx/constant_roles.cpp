// Reads from a file the roles of its initializers (ir/constant_role.h).
//
// PyTorch's exporters on torch.export state the kind of each tensor of the program (PARAMETER, BUFFER, CONSTANT_TENSOR)
// beside the initializer of its name, and all kinds together in the graph's signature. All other initializers in such a
// file were made by the exporter: by folding, whose results name the tensors that they come from; by rewriting weights,
// whose results keep the weights' names as parts of theirs; or by lifting Constant nodes. Other files state nothing,
// and their initializers stay unmarked.
#include <algorithm>
#include <map>
#include <set>

#include "io/onnx/importer.h"
#include "ir/constant_role.h"

namespace tessera::io {
namespace {

using ir::ConstantRole;
using tessera_onnx::GraphProto;
using tessera_onnx::ValueInfoProto;

constexpr std::string_view kKind = "pkg.torch.export.graph_signature.InputSpec.kind";
constexpr std::string_view kSignature = "pkg.torch.export.ExportedProgram.graph_signature";
constexpr std::string_view kFoldedFrom = "pkg.onnxscript.optimizer.folded_from";
constexpr std::string_view kTarget = "target='";

using Roles = std::map<std::string, ConstantRole, std::less<>>;

template <typename Message>
std::optional<std::string_view> property(const Message& message, std::string_view key) {
  for (const auto& each : message.metadata_props()) {
    if (each.key() == key) return each.value();
  }
  return std::nullopt;
}

// The role for the last word in the text that is a kind of tensor.
ConstantRole last_kind(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; };
  ConstantRole role = ConstantRole::unmarked;
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    if (!is_letter(text[begin])) continue;
    std::size_t end = begin;
    while (end < text.size() && is_letter(text[end])) ++end;
    if (const ConstantRole found = ir::role_of_kind(text.substr(begin, end - begin)); found != ConstantRole::unmarked)
      role = found;
    begin = end;
  }
  return role;
}

// The roles of the program's tensors by their names in the program. A signature states the kind of each before its
// target; inputs come before outputs, which have other kinds.
Roles roles_of_signature(std::string_view signature) {
  Roles roles;
  std::size_t begin = 0;
  for (std::size_t at = signature.find(kTarget); at != std::string_view::npos; at = signature.find(kTarget, begin)) {
    const std::size_t name = at + kTarget.size();
    const std::size_t end = signature.find('\'', name);
    if (end == std::string_view::npos) break;
    const ConstantRole role = last_kind(signature.substr(begin, at - begin));
    if (role != ConstantRole::unmarked) roles.emplace(signature.substr(name, end - name), role);
    begin = end + 1;
  }
  return roles;
}

// A list of names as Python prints it: "['layer.weight', 'val_3']".
std::set<std::string, std::less<>> names_in(std::string_view list) {
  std::set<std::string, std::less<>> names;
  for (std::size_t begin = list.find('\''); begin != std::string_view::npos;) {
    const std::size_t end = list.find('\'', begin + 1);
    if (end == std::string_view::npos) break;
    names.emplace(list.substr(begin + 1, end - begin - 1));
    begin = list.find('\'', end + 1);
  }
  return names;
}

// Whether a name is that of a parameter with a suffix: conv.weight_bias.
bool continues_a_parameter(std::string_view name, const Roles& program) {
  auto next = program.upper_bound(name);
  // Names between a prefix of `name` and `name` itself may come first: a few steps back find the longest prefix.
  for (int i = 0; i < 16 && next != program.begin(); ++i) {
    --next;
    if (next->second == ConstantRole::parameter && name.starts_with(next->first)) return true;
  }
  return false;
}

ConstantRole role_among(const Roles& program, std::string_view name, std::optional<std::string_view> folded_from) {
  if (const auto found = program.find(name); found != program.end()) return found->second;
  if (folded_from) {
    const std::set<std::string, std::less<>> sources = names_in(*folded_from);
    const bool from_parameter = std::ranges::any_of(sources, [&](const std::string& source) {
      const auto found = program.find(source);
      return found != program.end() ? found->second == ConstantRole::parameter : continues_a_parameter(source, program);
    });
    return from_parameter ? ConstantRole::parameter : ConstantRole::literal;
  }
  return continues_a_parameter(name, program) ? ConstantRole::parameter : ConstantRole::literal;
}

}  // namespace

void Importer::mark_initializers(const GraphProto& proto, const Scope& scope) {
  const std::optional<std::string_view> signature = property(proto, kSignature);
  Roles program = roles_of_signature(signature.value_or(""));
  std::map<std::string_view, std::string_view> folded_from;
  const auto note = [&](const ValueInfoProto& info) {
    if (info.metadata_props_size() == 0) return;
    if (const auto kind = property(info, kKind)) {
      if (const ConstantRole role = ir::role_of_kind(*kind); role != ConstantRole::unmarked)
        program[info.name()] = role;
    }
    if (const auto names = property(info, kFoldedFrom)) folded_from[info.name()] = *names;
  };
  for (const ValueInfoProto& info : proto.value_info()) note(info);
  for (const ValueInfoProto& info : proto.input()) note(info);  // exporters may list initializers among the inputs
  if (program.empty()) return;
  ir::Graph& graph = scope.graph->graph;
  for (const auto& initializer : proto.initializer()) {
    const std::string& name = initializer.name();
    const auto found = scope.values.find(name);
    if (found == scope.values.end() || !graph.is_constant(found->second) ||
        !is_float(graph.constant(found->second)->dtype()))
      continue;
    const auto own = program.find(name);
    if (own != program.end()) {
      ir::set_role(graph, found->second, own->second);
    } else if (signature) {
      const auto sources = folded_from.find(name);
      ir::set_role(
          graph, found->second,
          role_among(program, name, sources == folded_from.end() ? std::nullopt : std::optional(sources->second)));
    }
  }
}

}  // namespace tessera::io
