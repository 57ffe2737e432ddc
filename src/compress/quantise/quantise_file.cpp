#include "compress/quantise/quantise_file.h"

#include <filesystem>

#include "compress/core/compression_costs.h"
#include "compress/quantise/quantisable_layers.h"
#include "io/output_file.h"
#include "tessera/optimise.h"

namespace tessera::compress {
namespace {

std::int64_t write(const Model& quantised, const std::string& output, const SessionOptions& session) {
  if (output.ends_with(".tsr")) return optimise(quantised, output, {.session = session}).file_bytes;
  quantised.save(output);
  return static_cast<std::int64_t>(std::filesystem::file_size(output));
}

}  // namespace

QuantisedModel quantise_to_file(const Model& model, const QuantiseOptions& options, const std::string& output,
                                bool times, std::int64_t file_bytes_before) {
  check_output_name(output);
  io::check_output(output);
  QuantisedModel made = quantise(model, options);
  made.report.file_bytes = write(made.model, output, options.session);
  made.report.file_bytes_before = file_bytes_before;
  if (times && !options.data.path.empty())
    measure_costs(made.report, model, made.model, first_sample(model, options.data), options.session);
  return made;
}

std::int64_t file_bytes_of(const std::string& path, const Model& model) {
  std::error_code failed;
  const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(path, failed));
  if (failed) return 0;
  const std::int64_t constants = constant_bytes(model.graph());
  return bytes >= constants ? bytes : bytes + constants;
}

}  // namespace tessera::compress
