// What a model is: signature, operators, size and work.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tessera/model.h"

namespace tessera::report {

class ModelOutline;

struct ModelInfo {
  std::map<std::string, std::int64_t> operator_counts;  // subgraphs included
  std::map<std::string, std::string> ignored;           // parts of the file without bearing on a run, and their counts
  std::vector<std::string> symbols;                     // names of symbolic dimensions of the inputs
  std::int64_t nodes = 0;
  std::int64_t parameters = 0;  // elements of float constants, quantised weights and variables
  std::int64_t constant_bytes = 0;
  double operations = 0;                        // of one run with the dimensions in `assumed`; multiply-add = 2
  double bytes = 0;                             // read and written, ideal caching inside each operator
  std::int64_t nodes_without_cost = 0;          // nodes whose shapes depend on data
  std::map<std::string, std::int64_t> assumed;  // sizes of dimensions that are open, see runtime/session/assumed_dims.h
  std::string assumption;                       // the same in words, or ""
  std::string
      why_no_work;  // of a model that has no meaning with these shapes: what is wrong; operations and bytes are 0
};

// Shapes come from the model's input types; fix symbolic dimensions with Model::with_dims first for figures of a real
// batch.
ModelInfo describe_model(const Model& model);

// {"model", "inputs", "outputs", "symbols", "ignored", "operators", "nodes", "parameters", "constant_bytes",
// "operations", "bytes"}, "why_no_work" where it is known, "package" for a .tsr file; "metadata"; with an outline
// "graph" as outline_json has it
std::string model_info_json(const Model& model, const ModelInfo& info, const std::string& name,
                            const ModelOutline* outline = nullptr);
nlohmann::json metadata_json(const ModelMetadata& metadata);

}  // namespace tessera::report
