#include "train/net/distillation.h"

#include <algorithm>

#include "base/error.h"
#include "io/toml_table.h"
#include "ir/inline.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "train/net/fake_quantisation.h"
#include "train/net/losses.h"
#include "train/net/modes.h"
#include "train/net/separate_weights.h"
#include "train/net/trained_model.h"
#include "train/net/training_graph.h"
#include "train/run/checkpoint.h"
#include "train/run/training_setup.h"

namespace tessera::train {
namespace {

using ir::ValueId;
using ops::Term;

void check(const TeacherOptions& options) {
  require(options.temperature > 0 && options.temperature <= 1e6, ErrorKind::invalid_argument,
          "teacher.temperature is {}, expected a positive number up to 1e6", options.temperature);
  require(options.weight >= 0 && options.weight <= 1, ErrorKind::invalid_argument,
          "teacher.weight is {}, expected a number in [0, 1]", options.weight);
  require(options.attention_weight >= 0 && options.attention_weight <= 1e9, ErrorKind::invalid_argument,
          "teacher.attention_weight is {}, expected a number in [0, 1e9]", options.attention_weight);
  require(options.weight > 0 || (!options.attention.empty() && options.attention_weight > 0),
          ErrorKind::invalid_argument,
          "the teacher teaches nothing: give teacher.weight above 0 or pairs of maps in teacher.attention");
}

// The weights of a checkpoint by the net's names, or their moving averages if the checkpoint has them.
std::map<std::string, Tensor> weights_for(const ir::Graph& net, const std::string& path) {
  const Checkpoint checkpoint = newest_checkpoint(path);
  std::map<std::string, Tensor> weights;
  for (std::size_t i = 0; i < net.value_count(); ++i) {
    const ValueId id{static_cast<std::int32_t>(i)};
    const Tensor* constant = net.constant(id);
    if (constant == nullptr || constant->dtype() != DType::f32) continue;
    const std::string& name = net.value(id).name;
    auto found = checkpoint.variables.find(average_of(name));
    if (found == checkpoint.variables.end()) found = checkpoint.variables.find(name);
    if (found == checkpoint.variables.end()) continue;
    require(found->second.dtype() == DType::f32 && found->second.shape() == constant->shape(),
            ErrorKind::invalid_argument,
            "teacher.checkpoint '{}' is of another net: its '{}' is {} {}, but the teacher's is f32 {}", path, name,
            name_of(found->second.dtype()), to_string(found->second.shape()), to_string(constant->shape()));
    weights.emplace(name, found->second);
  }
  for (const auto& [name, value] : checkpoint.variables) {
    require(!checkpoint.variables.contains(first_state_of(name)) || weights.contains(name), ErrorKind::invalid_argument,
            "teacher.checkpoint '{}' is of another net: the teacher has no weight '{}'", path, name);
  }
  require(!weights.empty(), ErrorKind::invalid_argument,
          "teacher.checkpoint '{}' is of another net: none of its variables has the name of one of the teacher's "
          "weights",
          path);
  return weights;
}

std::string names_of(const ir::Graph& graph, std::span<const ValueId> values) {
  std::string names;
  for (const ValueId id : values) names += (names.empty() ? "'" : ", '") + graph.value(id).name + "'";
  return names;
}

// The value of a net with that name. `whose` says in messages whose net it is.
ValueId find(const ir::Graph& graph, const std::string& name, const char* whose) {
  const ValueId id = graph.find_value(name);
  require(id.valid() && !graph.is_constant(id), ErrorKind::invalid_argument,
          "teacher.attention: the {} has no value '{}'; `tessera info MODEL --json` lists those of a model file", whose,
          name);
  return id;
}

ValueId find_logits(const Teacher& teacher) {
  const auto& outputs = teacher.graph.outputs();
  const std::string& name = teacher.options.logits;
  for (const ValueId id : outputs) {
    if (teacher.graph.value(id).name == name) return id;
  }
  require(name.empty() && outputs.size() == 1, ErrorKind::invalid_argument,
          "teacher.logits is '{}', expected one of the teacher's outputs {}", name, names_of(teacher.graph, outputs));
  return outputs[0];
}

// The student's inputs that the teacher reads.
std::vector<ValueId> arguments_of(const ir::Graph& graph, std::span<const ValueId> inputs, const Teacher& teacher) {
  std::vector<ValueId> arguments;
  for (const ValueId id : teacher.graph.inputs()) {
    const ir::ValueInfo& wanted = teacher.graph.value(id);
    const auto same = std::ranges::find(inputs, wanted.name, [&](ValueId each) { return graph.value(each).name; });
    const bool only = inputs.size() == 1 && teacher.graph.inputs().size() == 1;
    require(only || same != inputs.end(), ErrorKind::invalid_argument,
            "the teacher's input '{}' is none of the student's, which are {}", wanted.name, names_of(graph, inputs));
    const ValueId argument = same != inputs.end() ? *same : inputs[0];
    const ir::ValueType& given = graph.value(argument).type;
    bool fits = given.dtype == wanted.type.dtype;
    if (given.dims && wanted.type.dims)
      fits = fits && std::ranges::equal(*given.dims, *wanted.type.dims,
                                        [](const ir::Dim& a, const ir::Dim& b) { return a.may_equal(b); });
    require(fits, ErrorKind::invalid_argument, "the teacher's input '{}' is {}, but the student's '{}' is {}",
            wanted.name, ir::to_string(wanted.type), graph.value(argument).name, ir::to_string(given));
    arguments.push_back(argument);
  }
  return arguments;
}

// The logits as [N, classes]. Classes are along axis 1 if the labels' shape says so, else along the last axis.
Term rows_of_classes(Term logits, const ir::Dims& labels) {
  const std::int64_t rank = logits.rank();
  require(rank >= 2, ErrorKind::invalid_argument, "teacher: logits are {}, expected [N, classes, …] or [N, …, classes]",
          to_string(logits.dims()));
  if (rank == 2) return logits;
  ir::Dims dims = logits.dims();
  dims.erase(dims.begin() + 1);
  const bool at_1 = std::ranges::equal(dims, labels, [](const ir::Dim& a, const ir::Dim& b) { return a.may_equal(b); });
  if (at_1) {
    std::vector<std::int64_t> order{0};
    for (std::int64_t axis = 2; axis < rank; ++axis) order.push_back(axis);
    order.push_back(1);
    logits = logits.transpose(order);
  }
  const ir::Dim classes = logits.dims().back();
  require(classes.is_known(), ErrorKind::invalid_argument, "teacher: logits are {}, expected a known number of classes",
          to_string(logits.dims()));
  return logits.reshape(logits.integers({-1, classes.value()}));
}

// The attention map of features [N, channels, d…]: [N, product of d], normalised to length 1.
Term attention_of(Term map) {
  map = map.cast(DType::f32);
  const Term squares = (map * map).combine("ReduceMean", {map.integers({1})}, {{"keepdims", std::int64_t{0}}});
  const Term flat = squares.apply("Flatten", {{"axis", std::int64_t{1}}});
  const Term norm = (flat * flat).sum({1}).apply("Sqrt");
  return flat / norm.combine("Max", {norm.number(1e-12)});
}

Term attention_distance(Term student, Term teacher, const std::string& names) {
  const ir::Dims a = student.dims(), b = teacher.dims();
  bool fits = a.size() >= 3 && a.size() == b.size();
  for (std::size_t i = 0; fits && i < a.size(); ++i) fits = i == 1 || a[i].may_equal(b[i]);
  require(fits, ErrorKind::invalid_argument,
          "teacher.attention: {} are {} and {}; expected maps [N, channels, d…] that differ in nothing but channels",
          names, to_string(a), to_string(b));
  const Term difference = attention_of(student) - attention_of(teacher);
  const Term distances = (difference * difference).sum({1}, false);
  return distances.apply("ReduceMean", {{"keepdims", std::int64_t{0}}});
}

}  // namespace

TeacherOptions read_teacher(io::TomlTable table) {
  TeacherOptions teacher;
  teacher.net.builder = table.text("builder", "");
  teacher.net.file = table.text("file", "");
  teacher.net.dims = table.table("options").all_wholes();
  const std::int64_t seed = table.whole("seed", 1);
  require(seed >= 0, ErrorKind::invalid_argument, "teacher.seed is {}, expected at least 0", seed);
  teacher.net.seed = static_cast<std::uint64_t>(seed);
  teacher.checkpoint = table.text("checkpoint", "");
  teacher.logits = table.text("logits", "");
  teacher.temperature = table.number("temperature", teacher.temperature);
  teacher.weight = table.number("weight", teacher.weight);
  teacher.attention = table.table("attention").all_texts();
  teacher.attention_weight = table.number("attention_weight", teacher.attention_weight);
  check(teacher);
  return teacher;
}

Model load_teacher(const TeacherOptions& options) {
  check(options);
  require(options.model || options.net.builder.empty() != options.net.file.empty(), ErrorKind::invalid_argument,
          "the teacher's net is given by either teacher.builder or teacher.file");
  const Model given = options.model ? *options.model : load_net(options.net);
  const Model net(std::make_shared<const ir::Graph>(separate_weights(inference_form(given.graph()))));
  require(net.graph().variables().empty(), ErrorKind::invalid_argument,
          "the teacher has variables ('{}' is one); expected a net for inference whose weights are constants",
          net.graph().variables().empty() ? "" : net.graph().variables()[0].name);
  return options.checkpoint.empty() ? net : with_weights(net, weights_for(net.graph(), options.checkpoint));
}

void keep_maps(ir::Graph& student, const Teacher& teacher) {
  for (const auto& [name, of_teacher] : teacher.options.attention) {
    const ValueId map = find(student, name, "student");
    if (!student.is_output(map)) student.add_output(map);
  }
}

ValueId add_distillation(ops::GraphBuilder& builder, const StudentValues& student, const Teacher& teacher) {
  ir::Graph& graph = builder.graph();
  const TeacherOptions& options = teacher.options;
  std::vector<Term> own_maps;
  for (const auto& [name, of_teacher] : options.attention) own_maps.emplace_back(builder, find(graph, name, "student"));
  ir::Graph net = teacher.graph;
  std::vector<ValueId> outputs{find_logits(teacher)};
  for (const auto& [name, of_teacher] : options.attention) outputs.push_back(find(net, of_teacher, "teacher"));
  net.set_outputs(outputs);
  const std::vector<ValueId> taught = ir::append_inlined(graph, net, arguments_of(graph, student.inputs, teacher));
  ops::infer_graph(graph);
  Term loss(builder, student.labels_loss);
  if (options.weight > 0) {
    const Term own(builder, student.logits), other(builder, taught[0]);
    LossOptions soft;
    soft.name = "distillation";
    soft.temperature = options.temperature;
    const LossInputs compared{
        rows_of_classes(own, student.target_dims).id(), rows_of_classes(other, student.target_dims).id(), {}, {}};
    const Term divergence(builder, build_loss(builder, compared, soft).loss);
    loss = loss * (1 - options.weight) + divergence.cast(loss.dtype()) * options.weight;
  }
  std::size_t at = 0;
  for (const auto& [name, of_teacher] : options.attention) {
    const Term map(builder, taught[at + 1]);
    const Term distance =
        attention_distance(own_maps[at], map, "'" + name + "' of the student and '" + of_teacher + "' of the teacher");
    loss = loss + distance.cast(loss.dtype()) * (options.attention_weight / 2);
    ++at;
  }
  return loss.id();
}

}  // namespace tessera::train
