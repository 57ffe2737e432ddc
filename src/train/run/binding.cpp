#include "train/run/binding.h"

#include <algorithm>

#include "base/error.h"
#include "ir/type.h"
#include "train/net/losses.h"

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

// The shape of a sample's target with the rank that the loss expects for a prediction of these dimensions, if it
// differs by one dimension of size 1.
Shape fitted(Shape shape, const ir::Dims& prediction, bool labels) {
  if (prediction.size() < 2) return shape;
  const std::size_t expected = prediction.size() - (labels ? 2 : 1);
  const auto is_one = [](const ir::Dim& dim) { return dim.is_known() && dim.value() == 1; };
  if (shape.size() == expected + 1) {
    if (shape.front() == 1) shape.erase(shape.begin());
    else if (shape.back() == 1) shape.pop_back();
  } else if (!labels && shape.size() + 1 == expected) {
    if (is_one(prediction.back())) shape.push_back(1);
    else if (is_one(prediction[1])) shape.insert(shape.begin(), 1);
  }
  return shape;
}

}  // namespace

const ir::ValueInfo* prediction_of(const ir::Graph& model, const LossOptions& loss) {
  for (const ir::ValueId id : model.outputs()) {
    if (model.outputs().size() == 1 || model.value(id).name == loss.prediction) return &model.value(id);
  }
  return nullptr;
}

Binding bind_fields(const ir::Graph& model, const std::vector<Field>& fields, const std::vector<std::string>& targets) {
  const auto has = [&](const std::string& name) {
    return std::ranges::find(fields, name, &Field::name) != fields.end();
  };
  Binding binding;
  for (const std::string& target : targets) {
    require(has(target), ErrorKind::invalid_argument, "the data have no field '{}' to compare with (loss.target): {}",
            target, described(model, fields));
    if (std::ranges::find(binding.targets, target) == binding.targets.end()) binding.targets.push_back(target);
  }
  std::vector<std::string> open, unused;
  for (const ir::ValueId id : model.inputs()) {
    const std::string& name = model.value(id).name;
    if (has(name)) binding.fields[name] = name;
    else open.push_back(name);
  }
  for (const Field& field : fields) {
    const bool is_target = std::ranges::find(binding.targets, field.name) != binding.targets.end();
    if (!is_target && !binding.fields.contains(field.name)) unused.push_back(field.name);
  }
  if (unused.empty() && fields.size() == 1) unused.push_back(fields[0].name);
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
  for (const std::string& target : binding.targets) {
    require(has(target), ErrorKind::invalid_argument,
            "the test data have no field '{}' to compare with (loss.target): {}", target, described(model, fields));
  }
}

std::map<std::string, FieldForm> forms_of(const ir::Graph& model, const Binding& binding,
                                          const std::vector<Field>& fields, const std::vector<LossOptions>& losses) {
  std::map<std::string, FieldForm> forms;
  const auto field = [&](const std::string& name) { return *std::ranges::find(fields, name, &Field::name); };
  for (const ir::ValueId id : model.inputs()) {
    const std::string& name = binding.fields.at(model.value(id).name);
    forms[name] = {model.value(id).type.dtype, field(name).shape, true};
  }
  for (const LossOptions& loss : losses) {
    if (forms.contains(loss.target)) continue;  // an input, or the target of another loss
    const Field target = field(loss.target);
    const ir::ValueInfo* prediction = prediction_of(model, loss);
    const bool labels = target_kind(loss.name) == TargetKind::labels;
    FieldForm& form = forms[loss.target] = {target.dtype, target.shape, false};
    if (labels && target.dtype != DType::i32) form.dtype = DType::i64;
    if (!labels) form.dtype = prediction != nullptr && prediction->type.dtype == DType::f64 ? DType::f64 : DType::f32;
    if (prediction != nullptr && prediction->type.dims)
      form.shape = fitted(target.shape, *prediction->type.dims, labels);
  }
  return forms;
}

NamedValues inputs_of(const Binding& binding, const std::map<std::string, Tensor>& batch) {
  NamedValues inputs;
  for (const auto& [input, field] : binding.fields) inputs.emplace(input, batch.at(field));
  const auto add = [&](const std::string& name) {
    if (const auto found = batch.find(name); found != batch.end()) inputs.emplace(name, found->second);
  };
  for (const std::string& target : binding.targets) {
    add(target);
    add(target + "_mixed");
  }
  add("mix");
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
