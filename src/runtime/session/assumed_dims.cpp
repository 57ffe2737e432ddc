#include "runtime/session/assumed_dims.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include "backends/reference/reference_device.h"
#include "base/error.h"
#include "passes/pass.h"
#include "runtime/run/evaluate.h"

namespace tessera::runtime {
namespace {

enum class Role : std::uint8_t { batch, channels, picture, sequence, past, total };

struct OpenDim {
  std::string name;
  Role role = Role::batch;
};

bool contains(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

// What the name alone says, which exporters choose with care.
std::optional<Role> role_by_name(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (contains(name, {"total", "+"})) return Role::total;
  if (contains(name, {"past"})) return Role::past;
  if (contains(name, {"batch"})) return Role::batch;
  if (contains(name, {"height", "width"}) || name == "h" || name == "w") return Role::picture;
  if (contains(name, {"channel"})) return Role::channels;
  if (contains(name, {"seq", "len", "token", "time", "frame"}) || name == "t" || name == "s") return Role::sequence;
  return std::nullopt;
}

// Channels stand last where the last axis is a known small number and the second is open or larger.
bool has_channels_last(const ir::Dims& dims) {
  const ir::Dim &second = dims[1], &last = dims.back();
  return last.is_known() && last.value() <= 4 && (!second.is_known() || second.value() > 4);
}

// [layers, batch, width]: the state of an LSTM or GRU that goes in and out.
bool is_recurrent_state(const ir::ValueInfo& input, std::size_t axis) {
  const ir::Dims& dims = *input.type.dims;
  if (dims.size() != 3 || axis != 1 || !dims[0].is_known() || !dims[2].is_known() || dims[0].value() > 8) return false;
  return dims[0].value() > 1 || contains(input.name, {"state", "hidden", "cell"}) || input.name == "h" ||
         input.name == "c";
}

Role role_of(const ir::ValueInfo& input, std::size_t axis) {
  const ir::Dims& dims = *input.type.dims;
  if (const std::optional<Role> role = role_by_name(dims[axis].name())) return *role;
  if (axis == 0) return Role::batch;
  if (is_recurrent_state(input, axis)) return Role::batch;
  const bool picture =
      (dims.size() == 4 || dims.size() == 5) && (is_float(input.type.dtype) || input.type.dtype == DType::u8);
  if (!picture) return Role::sequence;
  return axis == (has_channels_last(dims) ? dims.size() - 1 : 1) ? Role::channels : Role::picture;
}

std::vector<OpenDim> open_dims(const Model& model) {
  std::vector<OpenDim> open;
  for (const ir::ValueId id : model.graph().inputs()) {
    const ir::ValueInfo& input = model.graph().value(id);
    if (!input.type.is_tensor() || !input.type.dims) continue;
    for (std::size_t axis = 0; axis < input.type.dims->size(); ++axis) {
      if ((*input.type.dims)[axis].is_known()) continue;
      OpenDim dim{dim_name(input, axis), role_of(input, axis)};
      // A symbol may stand in several inputs; where it was taken for a batch only by its place, another place may say
      // more.
      const auto same = std::ranges::find(open, dim.name, &OpenDim::name);
      if (same == open.end()) open.push_back(std::move(dim));
      else if (same->role == Role::batch && !role_by_name(dim.name)) same->role = dim.role;
    }
  }
  return open;
}

struct Sizes {
  std::int64_t picture = 224, sequence = 128, channels = 3;
};

std::map<std::string, std::int64_t> dims_of(const std::vector<OpenDim>& open, const Sizes& sizes) {
  const bool has_past = std::ranges::any_of(open, [](const OpenDim& dim) { return dim.role == Role::past; });
  std::map<std::string, std::int64_t> dims;
  for (const auto& [name, role] : open) {
    switch (role) {
      case Role::batch:
        dims[name] = 1;
        break;
      case Role::channels:
        dims[name] = sizes.channels;
        break;
      case Role::picture:
        dims[name] = sizes.picture;
        break;
      case Role::sequence:
      case Role::past:
        dims[name] = sizes.sequence;
        break;
      case Role::total:
        dims[name] = has_past ? 2 * sizes.sequence : sizes.sequence;
        break;
    }
  }
  return dims;
}

// Of other errors no size is at fault.
bool is_about_shapes(const Error& error) {
  return error.kind() == ErrorKind::invalid_model || error.kind() == ErrorKind::invalid_argument ||
         error.kind() == ErrorKind::failed;
}

// What is wrong with the model at these sizes: of types, and of what small nodes compute from shapes.
std::optional<std::string> fault_of(const Model& fixed) {
  passes::FoldingBudget budget{.bytes = 1 << 20, .operations = 1e6};
  passes::PassContext context;
  context.evaluate = [](const ir::Node& node, std::span<const Value> inputs) {
    return evaluate_node(backends::reference_device(), node, inputs, {});
  };
  context.folding_left = &budget;
  try {
    passes::fold_constants(fixed.graph(), context);
  } catch (const Error& error) {
    if (!is_about_shapes(error)) throw;
    return error.what();
  }
  return std::nullopt;
}

std::vector<Sizes> sizes_to_try(const std::vector<OpenDim>& open) {
  const auto has = [&](Role role) {
    return std::ranges::any_of(open, [&](const OpenDim& dim) { return dim.role == role; });
  };
  const bool sequences = has(Role::sequence) || has(Role::past) || has(Role::total);
  std::vector<Sizes> sizes{{}};
  if (has(Role::channels)) sizes.push_back({.channels = 1});
  if (has(Role::picture)) {
    for (std::int64_t size = 32; size <= 1024; size += 32) sizes.push_back({.picture = size});
  }
  if (sequences) {
    for (const std::int64_t length : {512, 256, 64, 32, 16, 1024, 8, 4, 2, 1}) sizes.push_back({.sequence = length});
  }
  // Both at fault: few sizes of each.
  for (const std::int64_t size : {32, 64, 256, 512, 640}) {
    if (!has(Role::picture) || !(sequences || has(Role::channels))) break;
    for (const std::int64_t length : {128, 512, 1}) {
      for (const std::int64_t channels : {3, 1}) sizes.push_back({size, length, channels});
    }
  }
  return sizes;
}

// Pictures first, then sequences: what is worth changing.
std::string listed(const std::vector<OpenDim>& open, const std::map<std::string, std::int64_t>& dims) {
  std::string text;
  for (const Role role : {Role::picture, Role::channels, Role::sequence, Role::past, Role::total, Role::batch}) {
    for (const OpenDim& dim : open) {
      if (dim.role == role) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", dim.name, dims.at(dim.name));
    }
  }
  return text;
}

}  // namespace

std::string dim_name(const ir::ValueInfo& input, std::size_t axis) {
  const ir::Dim& dim = (*input.type.dims)[axis];
  return dim.is_symbol() ? dim.name() : fmt::format("{}.{}", input.name, axis);
}

AssumedDims assume_dims(const Model& model) {
  const std::vector<OpenDim> open = open_dims(model);
  if (open.empty()) return {model, {}, "", true};
  const bool only_batches = std::ranges::all_of(open, [](const OpenDim& dim) { return dim.role == Role::batch; });
  std::string first_fault;
  for (const Sizes& sizes : sizes_to_try(open)) {
    const std::map<std::string, std::int64_t> dims = dims_of(open, sizes);
    std::optional<std::string> fault;
    try {
      Model fixed = model.with_dims(dims);
      fault = fault_of(fixed);
      if (!fault) {
        return {std::move(fixed), dims, fmt::format("assuming {}; change with --dim NAME=N", listed(open, dims)),
                only_batches};
      }
    } catch (const Error& error) {
      if (!is_about_shapes(error)) throw;
      fault = error.what();
    }
    if (first_fault.empty()) first_fault = *fault;
  }
  fail(ErrorKind::invalid_argument,
       "no sizes were found that the model accepts; fix its dimensions with --dim NAME=N (with {}: {})",
       listed(open, dims_of(open, {})), first_fault);
}

}  // namespace tessera::runtime
