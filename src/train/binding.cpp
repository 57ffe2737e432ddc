#include "train/binding.h"

#include <algorithm>

#include "base/error.h"
#include "ir/type.h"

namespace tessera::train {
namespace {

std::string described(const ir::Graph& model, const std::vector<Field>& fields) {
  std::string inputs, data;
  for (const ir::ValueId id : model.inputs())
    inputs +=
        fmt::format("{}{} {}", inputs.empty() ? "" : ", ", model.value(id).name, ir::to_string(model.value(id).type));
  for (const Field& field : fields)
    data += fmt::format("{}{} {}[batch{}{}]", data.empty() ? "" : ", ", field.name, name_of(field.dtype),
                        field.shape.empty() ? "" : ", ", fmt::join(field.shape, ", "));
  return fmt::format("the net's inputs are {}; the data's fields are {}", inputs, data);
}

}  // namespace

Binding bind_fields(const ir::Graph& model, const std::vector<Field>& fields, const std::string& target) {
  const auto has = [&](const std::string& name) {
    return std::ranges::find(fields, name, &Field::name) != fields.end();
  };
  require(has(target), ErrorKind::invalid_argument, "the data have no field '{}' to compare with (loss.target): {}",
          target, described(model, fields));
  Binding binding{{}, target};
  std::vector<std::string> open, unused;
  for (const ir::ValueId id : model.inputs()) {
    const std::string& name = model.value(id).name;
    require(name != target, ErrorKind::invalid_argument, "'{}' is both an input of the net and the target", target);
    if (has(name)) binding.fields[name] = name;
    else open.push_back(name);
  }
  for (const Field& field : fields) {
    if (field.name != target && !binding.fields.contains(field.name)) unused.push_back(field.name);
  }
  if (open.size() == 1 && unused.size() == 1) {
    binding.fields[open[0]] = unused[0];
    open.clear();
  }
  require(open.empty(), ErrorKind::invalid_argument, "no field of the data feeds the input '{}': {}",
          open.empty() ? "" : open[0], described(model, fields));
  return binding;
}

void check_test_fields(const ir::Graph& model, const Binding& binding, const std::vector<Field>& fields) {
  const auto has = [&](const std::string& name) {
    return std::ranges::find(fields, name, &Field::name) != fields.end();
  };
  for (const auto& [input, field] : binding.fields) {
    require(has(field), ErrorKind::invalid_argument,
            "no field of the test data feeds the input '{}', as '{}' of the training data does: {}", input, field,
            described(model, fields));
  }
  require(has(binding.target), ErrorKind::invalid_argument,
          "the test data have no field '{}' to compare with (loss.target): {}", binding.target,
          described(model, fields));
}

std::map<std::string, DType> expected_types(const ir::Graph& model, const Binding& binding) {
  std::map<std::string, DType> types;
  for (const ir::ValueId id : model.inputs())
    types[binding.fields.at(model.value(id).name)] = model.value(id).type.dtype;
  return types;
}

NamedValues inputs_of(const Binding& binding, const std::map<std::string, Tensor>& batch) {
  NamedValues inputs;
  for (const auto& [input, field] : binding.fields) inputs.emplace(input, batch.at(field));
  for (const std::string& name : {binding.target, binding.target + "_mixed", std::string("mix")}) {
    if (const auto found = batch.find(name); found != batch.end()) inputs.emplace(name, found->second);
  }
  return inputs;
}

void check_shapes(const ir::Graph& model, const Binding& binding, const std::vector<Field>& fields,
                  std::int64_t batch) {
  for (const ir::ValueId id : model.inputs()) {
    const ir::ValueInfo& input = model.value(id);
    const auto field = std::ranges::find(fields, binding.fields.at(input.name), &Field::name);
    const ir::Dims* dims = input.type.dims ? &*input.type.dims : nullptr;
    if (dims == nullptr) continue;
    bool fits = dims->size() == field->shape.size() + 1;
    for (std::size_t i = 0; fits && i < field->shape.size(); ++i)
      fits = !(*dims)[i + 1].is_known() || (*dims)[i + 1].value() == field->shape[i];
    require(dims->empty() || !dims->front().is_known() || dims->front().value() == batch, ErrorKind::invalid_argument,
            "the net takes batches of {} (input '{}'), but data.batch is {}", dims->empty() ? 0 : dims->front().value(),
            input.name, batch);
    require(fits, ErrorKind::invalid_argument, "the field '{}' does not fit the input '{}': {}", field->name,
            input.name, described(model, fields));
  }
}

}  // namespace tessera::train
