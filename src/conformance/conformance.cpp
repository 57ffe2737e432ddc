#include "conformance/conformance.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/onnx/reader.h"
#include "io/onnx/writer.h"
#include "ir/graph.h"
#include "ops/op_table.h"
#include "tessera/session.h"

namespace tessera::conformance {
namespace {

namespace fs = std::filesystem;

bool is_case_folder(const fs::path& path) {
  return fs::is_directory(path) && fs::exists(path / "model.onnx");
}

// Whether the path is NAME.onnx with a file of its first output beside it.
bool is_case_file(const fs::path& path) {
  return path.extension() == ".onnx" && fs::exists(path.parent_path() / (path.stem().string() + "_output_0.pb"));
}

std::string case_name(const fs::path& path) {
  return fs::is_directory(path) ? path.filename().string() : path.stem().string();
}

SuiteTolerance tolerance_of(const fs::path& folder) {
  SuiteTolerance tolerance;
  std::ifstream file(folder / "data.json");
  if (!file) return tolerance;
  const nlohmann::json data = nlohmann::json::parse(file, nullptr, false);
  if (!data.is_object()) return tolerance;
  tolerance.relative = data.value("rtol", tolerance.relative);
  tolerance.absolute = data.value("atol", tolerance.absolute);
  return tolerance;
}

// The existing files input_0.pb, input_1.pb, … up to the first number that is missing.
std::vector<fs::path> numbered_files(const fs::path& folder, const std::string& prefix) {
  std::vector<fs::path> files;
  for (int i = 0;; ++i) {
    fs::path file = folder / fmt::format("{}{}.pb", prefix, i);
    if (!fs::exists(file)) return files;
    files.push_back(std::move(file));
  }
}

// The suite's fixed input for the light models: 0, 1/n, 2/n, … for n elements.
Tensor ramp(const ir::ValueType& type) {
  Shape shape;
  for (const ir::Dim& dim : type.dims.value_or(ir::Dims{})) shape.push_back(dim.is_known() ? dim.value() : 1);
  require(type.dtype == DType::f32, ErrorKind::unsupported, "no dummy input of type {}", ir::to_string(type));
  Tensor tensor(DType::f32, shape);
  const auto count = static_cast<double>(tensor.elements());
  for (std::int64_t i = 0; i < tensor.elements(); ++i)
    tensor.mutable_data<float>()[i] = static_cast<float>(static_cast<double>(i) / count);
  return tensor;
}

// Whether the graph's outputs are random by definition. Dropout in inference form is not random.
bool draws_random_numbers(const ir::Graph& graph) {
  return std::any_of(graph.order().begin(), graph.order().end(), [&](ir::NodeId id) {
    const ir::Node& node = graph.node(id);
    const bool inference_dropout = node.op == "Dropout" && (node.inputs.size() < 3 || !node.inputs[2].valid());
    return !ops::op_of(node).deterministic && !inference_dropout;
  });
}

bool same_form(const Value& actual, const Value& expected) {
  return actual.is_tensor() && expected.is_tensor() && actual.tensor().dtype() == expected.tensor().dtype() &&
         actual.tensor().shape() == expected.tensor().shape();
}

Model load(const fs::path& file, const CheckOptions& options) {
  if (!options.round_trip) return Model::load(file);
  const ir::Graph graph = io::read_model(file);
  const std::vector<std::byte> bytes = io::write_model_bytes(graph);
  return Model(std::make_shared<const ir::Graph>(io::read_model_bytes(bytes)));
}

class Case {
 public:
  Case(const fs::path& path, const CheckOptions& options)
      : path_(path),
        model_(load(fs::is_directory(path) ? path / "model.onnx" : path, options)),
        session_(model_, session_options(options)),
        tolerance_(tolerance_of(path)) {}

  bool random_values() const { return random_values_; }

  // Returns the first difference in any data set, or "".
  std::string run() {
    if (!fs::is_directory(path_)) return run_ramp();
    for (const fs::directory_entry& entry : fs::directory_iterator(path_)) {
      if (!entry.path().filename().string().starts_with("test_data_set_")) continue;
      if (const std::string found = run_data_set(entry.path()); !found.empty()) return found;
    }
    return "";
  }

 private:
  static SessionOptions session_options(const CheckOptions& options) {
    SessionOptions result;
    result.device = options.device;
    result.threads = options.threads;
    return result;
  }

  const ir::ValueInfo& input(std::size_t i) const { return model_.graph().value(model_.graph().inputs()[i]); }
  const ir::ValueInfo& output(std::size_t i) const { return model_.graph().value(model_.graph().outputs()[i]); }

  std::string run_data_set(const fs::path& folder) {
    const std::vector<fs::path> input_files = numbered_files(folder, "input_");
    if (input_files.size() < model_.inputs().size())
      return fmt::format("{} input files for {} inputs", input_files.size(), model_.inputs().size());
    NamedValues inputs;
    for (std::size_t i = 0; i < model_.inputs().size(); ++i)
      inputs[input(i).name] = io::read_value_proto(input_files[i], input(i).type);
    return compare(inputs, numbered_files(folder, "output_"));
  }

  std::string run_ramp() {
    NamedValues inputs;
    for (std::size_t i = 0; i < model_.inputs().size(); ++i) inputs[input(i).name] = ramp(input(i).type);
    return compare(inputs, numbered_files(path_.parent_path(), path_.stem().string() + "_output_"));
  }

  std::string compare(const NamedValues& inputs, const std::vector<fs::path>& expected_files) {
    const NamedValues outputs = session_.run(inputs);
    for (std::size_t i = 0; i < expected_files.size() && i < model_.outputs().size(); ++i) {
      const Value expected = io::read_value_proto(expected_files[i], output(i).type);
      const Value& actual = outputs.find(output(i).name)->second;
      const std::string found = difference(actual, expected, tolerance_);
      if (found.empty()) continue;
      if (!draws_random_numbers(model_.graph()) || !same_form(actual, expected))
        return fmt::format("output '{}': {}", output(i).name, found);
      random_values_ = true;
    }
    return "";
  }

  const fs::path path_;
  const Model model_;
  Session session_;
  const SuiteTolerance tolerance_;
  bool random_values_ = false;
};

}  // namespace

std::vector<fs::path> find_cases(const fs::path& path) {
  require(fs::exists(path), ErrorKind::not_found, "there is no '{}'", path.string());
  if (is_case_folder(path) || is_case_file(path)) return {path};
  std::vector<fs::path> cases;
  if (fs::is_directory(path)) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path)) {
      if (is_case_folder(entry.path()) || is_case_file(entry.path())) cases.push_back(entry.path());
    }
  }
  require(!cases.empty(), ErrorKind::not_found,
          "no test case (a folder with model.onnx and test_data_set_*) at or below '{}'", path.string());
  std::sort(cases.begin(), cases.end());
  return cases;
}

CaseResult run_case(const fs::path& path, const CheckOptions& options) {
  CaseResult result{case_name(path), CaseOutcome::passed, ""};
  try {
    Case test(path, options);
    result.reason = test.run();
    result.random_values = test.random_values();
    if (!result.reason.empty()) result.outcome = CaseOutcome::failed;
  } catch (const Error& error) {
    result.outcome = error.kind() == ErrorKind::unsupported ? CaseOutcome::unsupported : CaseOutcome::failed;
    result.reason = error.what();
  }
  return result;
}

}  // namespace tessera::conformance
