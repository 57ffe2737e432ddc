// How a model is served: Triton's configuration, and what Tessera adds to it.
#pragma once

#include <model_config.pb.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tessera/gate.h"
#include "tessera/model.h"

namespace tessera::serve {

struct ModelSettings {
  // Name, tensors, batching, instances, versions … as clients see them.
  inference::ModelConfig config;
  // Whether the file said something of batching, so that nothing is to be guessed from the model.
  bool batching_is_given = false;
  // The job that the arbiter knows.
  Priority priority = Priority::standard;
  double weight = 1;
  std::int64_t goal_ns = 0;  // a request that is predicted to take longer is refused; 0: none
  std::int64_t memory_limit_bytes = 0;
  int threads = 0;
  std::string precision;  // "f32", "bf16", or "" for the model's own

  // The tables [before] and [after]: steps before and after the network, see core/steps/step.h. Empty: none.
  std::map<std::string, std::string> before, after;
  // The table [generate], with keys such as "steps", "feed.INPUT" and "stop.OUTPUT"; see
  // serve/core/models/generation.h.
  std::map<std::string, std::string> generate;

  // Parts of the requests that versions get which are not named by the request; none: the highest gets all.
  std::map<std::int64_t, double> shares;

  // Fields of the file that this server does not heed, with the reason; for the log.
  struct Ignored {
    std::string field, why;
  };
  std::vector<Ignored> ignored;

  // Outputs that the file names. Of a network with states, the others of them are not shown to clients.
  std::set<std::string> shown_outputs;

  bool is_ensemble() const { return config.has_ensemble_scheduling() || config.platform() == "ensemble"; }
  std::int64_t delay_ns() const;
  std::int64_t queue_limit() const;  // requests that may wait
  int instances() const;
};

// From config.pbtxt or else config.toml of the model's folder; settings of neither are those of an empty file. Throws
// Error(invalid_argument) for a file with mistakes or unknown fields, saying where, and Error(unsupported) for what
// cannot be done (GPU instances, decoupled answers). core/config/field_table.h has what becomes of each field.
ModelSettings read_model_settings(const std::filesystem::path& folder, const std::string& name);
// Reads the settings from text; `where` names it in errors.
ModelSettings parse_pbtxt(const std::string& text, const std::string& where);
// Reads the same settings from the JSON form of Triton's configuration.
ModelSettings parse_config_json(const std::string& text, const std::string& where);
ModelSettings parse_model_toml(const std::string& text, const std::string& where);

// The settings of the model of this name. Throws Error(invalid_argument) where they name another one.
ModelSettings with_name(ModelSettings settings, const std::string& name);

// Adds what the file left out and the model knows: inputs, outputs, and whether the first dimension is a batch. It is
// one where every input and output has it with the same name that says so ("batch", "N", "batch_size" …), since
// requests that are computed together must not touch each other. Throws Error(invalid_argument) where the file
// contradicts the model in types, sizes or names.
void complete_settings(ModelSettings& settings, const Model& model);

inference::DataType config_type(DType type);
DType type_of_config(inference::DataType type);

}  // namespace tessera::serve
