// Writes an explanation as JSON, for scripts.
#include "report/explain/explain.h"
#include "report/values/json_text.h"

namespace tessera::report {
namespace {

using nlohmann::json;

json alignment_json(const cost::Alignment& alignment) {
  if (!alignment.applies) return nullptr;
  json misaligned = json::array();
  for (const cost::AlignmentPadding& padding : alignment.misaligned)
    misaligned.push_back({{"dimension", padding.dimension}, {"size", padding.from}, {"next_multiple", padding.to}});
  return {{"aligned", alignment.aligned},
          {"multiple", alignment.multiple},
          {"best_multiple", alignment.best_multiple},
          {"misaligned", misaligned},
          {"tile", {alignment.tile.m, alignment.tile.n}},
          {"tiles", alignment.tiles},
          {"waves", alignment.waves},
          {"tile_utilisation", alignment.tile_utilisation},
          {"wave_utilisation", alignment.wave_utilisation},
          {"utilisation", alignment.utilisation()}};
}

json layer_json(const cost::Layer& layer, std::int64_t batch) {
  const cost::Estimate& estimate = layer.estimate;
  json result{{"name", layer.work.name},
              {"op", layer.work.op},
              {"kernel", layer.work.kernel},
              {"shapes", layer.work.shapes},
              {"precision", cost::name_of(layer.work.precision)},
              {"operations", estimate.operations},
              {"bytes", estimate.bytes},
              {"weight_bytes", layer.work.weight_bytes},
              {"intensity", estimate.intensity},
              {"ridge", estimate.ridge},
              {"bound", cost::name_of(estimate.bound)},
              {"seconds", estimate.seconds},
              {"roof_seconds", estimate.roof_seconds},
              {"arithmetic_seconds", estimate.arithmetic_seconds},
              {"memory_seconds", estimate.memory_seconds},
              {"overhead_seconds", estimate.overhead_seconds},
              {"factor", estimate.factor},
              {"alignment", alignment_json(layer.alignment)}};
  if (layer.work.gemm)
    result["product"] = {{"m", layer.work.gemm->m},
                         {"n", layer.work.gemm->n},
                         {"k", layer.work.gemm->k},
                         {"count", layer.work.gemm->count}};
  if (layer.padded_multiple > 0)
    result["padding"] = {{"multiple", layer.padded_multiple}, {"gain_seconds", layer.padding_gain_seconds}};
  result["arithmetic_bound_from_batch"] =
      layer.batch_factor > 0 ? json(std::ceil(layer.batch_factor * static_cast<double>(batch))) : json(nullptr);
  return result;
}

json advice_json(const std::vector<cost::Advice>& list) {
  json result = json::array();
  for (const cost::Advice& advice : list)
    result.push_back({{"kind", cost::name_of(advice.kind)},
                      {"text", advice.text},
                      {"gain", advice.gain},
                      {"layers", advice.layers}});
  return result;
}

json device_json(const DeviceReport& device, std::int64_t batch) {
  const cost::Total& total = device.evaluation.total;
  const cost::DeviceProfile& profile = device.evaluation.device;
  json layers = json::array();
  for (const cost::Layer& layer : device.evaluation.layers) layers.push_back(layer_json(layer, batch));
  return {{"name", profile.name},
          {"title", profile.title},
          {"precision", cost::name_of(device.evaluation.precision)},
          {"supported", profile.supports(device.evaluation.precision)},
          {"fits", device.fits},
          {"memory_bytes", profile.memory_bytes},
          {"watts", profile.watts > 0 ? json(profile.watts) : json(nullptr)},
          {"peak", profile.peak(device.evaluation.precision, true)},
          {"bandwidth", profile.bandwidth},
          {"seconds", total.seconds},
          {"roof_seconds", total.roof_seconds},
          {"operations", total.operations},
          {"bytes", total.bytes},
          {"bound", cost::name_of(total.bound)},
          {"bound_share", total.bound_share},
          {"bound_seconds",
           {{"memory", total.memory_seconds},
            {"arithmetic", total.arithmetic_seconds},
            {"overhead", total.overhead_seconds}}},
          {"utilisation", {{"arithmetic", total.arithmetic_utilisation}, {"memory", total.memory_utilisation}}},
          {"unknown_nodes", device.unknown_nodes},
          {"layers", layers},
          {"advice", advice_json(device.advice)}};
}

json side_json(const OptimiserReport::Side& side) {
  return {{"nodes", side.nodes}, {"operations", side.operations}, {"bytes", side.bytes}, {"seconds", side.seconds}};
}

}  // namespace

std::string explanation_json(const Explanation& explanation) {
  json devices = json::array();
  for (const DeviceReport& device : explanation.devices) devices.push_back(device_json(device, explanation.batch));
  json todo = json::array();
  for (const cost::Advice* advice : things_to_do(explanation.devices[0])) todo.push_back(advice->text);
  json result{
      {"model", explanation.model},
      {"batch", explanation.batch},
      {"training", explanation.training},
      {"cpu_measured", explanation.cpu_measured},
      {"headline", headline(explanation)},
      {"things_to_do", todo},
      {"products", explanation.products},
      {"devices", devices},
      {"memory",
       {{"arena_bytes", explanation.memory.arena_bytes},
        {"weight_bytes", explanation.memory.weight_bytes},
        {"live_bytes", explanation.memory.live_bytes}}},
      {"optimiser",
       {{"before", side_json(explanation.optimiser.before)}, {"after", side_json(explanation.optimiser.after)}}}};
  if (const std::optional<MeasuredReport>& measured = explanation.measured) {
    result["measured"] = {{"device", explanation.devices[measured->device].evaluation.device.name},
                          {"threads", measured->threads},
                          {"seconds", measured->seconds},
                          {"total_seconds", measured->total_seconds},
                          {"unpredicted_seconds", measured->unpredicted_seconds},
                          {"median_error", measured->median_error},
                          {"p90_error", measured->p90_error},
                          {"total_error", measured->total_error}};
  }
  if (explanation.batch_choice) {
    json rows = json::array();
    for (const cost::BatchChoice::Row& row : explanation.batch_choice->rows) {
      rows.push_back({{"batch", row.batch},
                      {"epochs", row.epochs},
                      {"iterations", row.iterations},
                      {"iteration_seconds", row.iteration_seconds},
                      {"seconds", row.seconds}});
    }
    result["batch_choice"] = {{"rows", rows},
                              {"best_batch", explanation.batch_choice->rows[explanation.batch_choice->best].batch}};
  }
  return json_text(result, 2);
}

}  // namespace tessera::report
