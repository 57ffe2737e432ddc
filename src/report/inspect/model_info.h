// Summarises a model: signature, operators, size and work.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tessera/model.h"

namespace tessera::report {

class ModelOutline;

struct ModelInfo {
  std::map<std::string, std::int64_t> operator_counts;  // subgraphs included
  std::map<std::string, std::string> ignored;  // parts of the file without influence on a run, and their counts
  std::vector<std::string> symbols;            // names of symbolic dimensions of the inputs
  std::int64_t nodes = 0;
  std::int64_t parameters = 0;  // elements of float constants, quantised weights and variables
  std::int64_t constant_bytes = 0;
  double operations = 0;                        // of one run with the sizes in `assumed`; a multiply-add counts as two
  double bytes = 0;                             // read and written, with ideal caching inside each operator
  std::int64_t nodes_without_cost = 0;          // nodes whose shapes depend on data
  std::map<std::string, std::int64_t> assumed;  // sizes of open dimensions, see runtime/session/assumed_dims.h
  std::string assumption;                       // `assumed` in words, or ""
  std::string
      why_no_work;  // what is wrong with a model that cannot be run with these shapes; operations and bytes are 0 then
};

// Shapes come from the model's input types. For figures of a real batch, fix symbolic dimensions with Model::with_dims
// first.
ModelInfo describe_model(const Model& model);

// A JSON object with the members "model", "inputs", "outputs", "symbols", "ignored", "operators", "nodes",
// "parameters", "constant_bytes", "operations", "bytes" and "metadata"; "why_no_work" if the work is unknown; "package"
// for a .tsr file; and with an outline "graph", as outline_json gives it.
std::string model_info_json(const Model& model, const ModelInfo& info, const std::string& name,
                            const ModelOutline* outline = nullptr);
nlohmann::json metadata_json(const ModelMetadata& metadata);

}  // namespace tessera::report
