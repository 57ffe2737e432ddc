#include "ir/constant_role.h"

#include <algorithm>
#include <array>

namespace tessera::ir {
namespace {

constexpr std::string_view kPrefix = "role:";  // + the constant's name: its role

struct RoleName {
  ConstantRole role;
  std::string_view name, kind;
};
constexpr std::array<RoleName, 4> kRoles = {{
    {ConstantRole::parameter, "parameter", "PARAMETER"},
    {ConstantRole::buffer, "buffer", "BUFFER"},
    {ConstantRole::literal, "literal", "CONSTANT_TENSOR"},
    {ConstantRole::computed, "computed", "CONSTANT_TENSOR"},
}};

std::string key_of(const Graph& graph, ValueId constant) {
  return std::string(kPrefix) + graph.value(constant).name;
}

}  // namespace

bool is_role_key(std::string_view key) {
  return key.starts_with(kPrefix);
}

ConstantRole role_of(const Graph& graph, ValueId constant) {
  if (!has_roles(graph)) return ConstantRole::unmarked;
  const auto found = graph.metadata.find(key_of(graph, constant));
  if (found == graph.metadata.end()) return ConstantRole::unmarked;
  const auto role = std::ranges::find(kRoles, std::string_view(found->second), &RoleName::name);
  return role == kRoles.end() ? ConstantRole::unmarked : role->role;
}

void set_role(Graph& graph, ValueId constant, ConstantRole role) {
  if (role == ConstantRole::unmarked) graph.metadata.erase(key_of(graph, constant));
  else graph.metadata[key_of(graph, constant)] = std::ranges::find(kRoles, role, &RoleName::role)->name;
}

void copy_role(Graph& graph, ValueId from, ValueId to) {
  const ConstantRole role = role_of(graph, from);
  if (role != ConstantRole::unmarked && role_of(graph, to) == ConstantRole::unmarked) set_role(graph, to, role);
}

bool has_roles(const Graph& graph) {
  const auto first = graph.metadata.lower_bound(std::string(kPrefix));
  return first != graph.metadata.end() && is_role_key(first->first);
}

ConstantRole role_of_kind(std::string_view kind) {
  const auto found = std::ranges::find(kRoles, kind, &RoleName::kind);
  return found == kRoles.end() ? ConstantRole::unmarked : found->role;
}

std::optional<std::string> kind_of_role(ConstantRole role) {
  const auto found = std::ranges::find(kRoles, role, &RoleName::role);
  return found == kRoles.end() ? std::nullopt : std::optional(std::string(found->kind));
}

}  // namespace tessera::ir
