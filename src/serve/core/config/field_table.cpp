#include "serve/core/config/field_table.h"

#include <algorithm>
#include <array>

namespace tessera::serve {
namespace {

using google::protobuf::FieldDescriptor;
using Places = google::protobuf::TextFormat::ParseInfoTree;
using enum FieldUse;

// Every field of the message ModelConfig, or what it lies in; a test goes through the message. docs/serving.md has the
// same table.
constexpr std::array kRules = std::to_array<FieldRule>({
    {"name", understood},
    {"platform", understood},
    {"backend", understood},
    {"runtime", ignored, "there is one library for each backend"},
    {"version_policy", understood},
    {"max_batch_size", understood},
    {"input.name", understood},
    {"input.data_type", understood},
    {"input.format", understood},
    {"input.dims", understood},
    {"input.reshape", understood},
    {"input.is_shape_tensor", refused, "shape tensors are of TensorRT, which this server does not have"},
    {"input.allow_ragged_batch", refused, "requests are computed together only where their shapes are equal"},
    {"input.optional", refused, "every input of a model must come with the request"},
    {"input.is_non_linear_format_io", refused, "tensors of other than linear layouts are of TensorRT"},
    {"output.name", understood},
    {"output.data_type", understood},
    {"output.dims", understood},
    {"output.label_filename", understood},
    {"output.reshape", understood},
    {"output.is_shape_tensor", refused, "shape tensors are of TensorRT, which this server does not have"},
    {"output.is_non_linear_format_io", refused, "tensors of other than linear layouts are of TensorRT"},
    {"batch_input", refused, "no inputs are made from the batch"},
    {"batch_output", refused, "outputs are parted by rows alone"},
    {"optimization", ignored, "hints for other libraries and for GPUs; what is computed is not changed by them"},
    {"dynamic_batching.preferred_batch_size", understood},
    {"dynamic_batching.max_queue_delay_microseconds", understood},
    {"dynamic_batching.preserve_ordering", refused, "answers are sent as soon as they are there"},
    {"dynamic_batching.priority_levels", understood},
    {"dynamic_batching.default_priority_level", understood},
    {"dynamic_batching.default_queue_policy.timeout_action", understood},
    {"dynamic_batching.default_queue_policy.default_timeout_microseconds", understood},
    {"dynamic_batching.default_queue_policy.allow_timeout_override", ignored,
     "the timeout that a request brings always holds"},
    {"dynamic_batching.default_queue_policy.max_queue_size", understood},
    {"dynamic_batching.priority_queue_policy", refused, "all priorities have the default queue policy"},
    {"sequence_batching.direct.max_queue_delay_microseconds", understood},
    {"sequence_batching.direct.minimum_slot_utilization", ignored, "a batch forms for max_queue_delay_microseconds"},
    {"sequence_batching.oldest.max_candidate_sequences", understood},
    {"sequence_batching.oldest.preferred_batch_size", understood},
    {"sequence_batching.oldest.max_queue_delay_microseconds", understood},
    {"sequence_batching.oldest.preserve_ordering", refused, "answers are sent as soon as they are there"},
    {"sequence_batching.max_sequence_idle_microseconds", understood},
    {"sequence_batching.control_input", understood},
    {"sequence_batching.state.input_name", understood},
    {"sequence_batching.state.output_name", understood},
    {"sequence_batching.state.data_type", understood},
    {"sequence_batching.state.dims", understood},
    {"sequence_batching.state.initial_state", understood},
    {"sequence_batching.state.use_same_buffer_for_input_output", ignored, "states lie where the server chooses"},
    {"sequence_batching.state.use_growable_memory", ignored, "states lie where the server chooses"},
    {"sequence_batching.iterative_sequence", refused, "this server does not have iterative sequences"},
    {"ensemble_scheduling.step.model_name", understood},
    {"ensemble_scheduling.step.model_version", understood},
    {"ensemble_scheduling.step.input_map", understood},
    {"ensemble_scheduling.step.output_map", understood},
    {"ensemble_scheduling.step.model_namespace", refused, "a server has one repository, and its names have no spaces"},
    {"ensemble_scheduling.max_inflight_requests", ignored, "the queues of the models bound what waits"},
    {"instance_group.name", understood},
    {"instance_group.count", understood},
    {"instance_group.gpus", refused, "this server computes on the CPU: use KIND_CPU without gpus"},
    {"instance_group.kind", understood},
    {"instance_group.profile", ignored, "profiles are of TensorRT"},
    {"instance_group.rate_limiter", ignored, "how models share the device is said by their class and weight"},
    {"instance_group.passive", refused, "an instance that takes no requests has no use here"},
    {"instance_group.secondary_devices", ignored, "this server computes on the CPU alone"},
    {"instance_group.host_policy", ignored, "there are no policies of hosts"},
    {"default_model_filename", understood},
    {"cc_model_filenames", ignored, "the files are for GPUs"},
    {"metric_tags", ignored, "metrics are told apart by model and version"},
    {"parameters", understood},
    {"model_warmup", understood},
    {"model_operations", refused, "operators of libraries cannot be loaded"},
    {"model_transaction_policy.decoupled", refused, "this server does not have decoupled answers"},
    {"model_repository_agents", refused, "nothing checks or changes the files of a model before they are loaded"},
    {"response_cache", understood},
    {"model_metrics", ignored, "the histograms have buckets of their own"},
});

class Search {
 public:
  std::vector<FieldFinding> found;

  void look(const google::protobuf::Message& message, const std::string& prefix, Places* places) {
    const google::protobuf::Reflection& reflection = *message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);  // those that have other than their default values
    for (const FieldDescriptor* field : fields) {
      const std::string path = prefix + field->name();
      const auto rule = std::ranges::find(kRules, path, &FieldRule::path);
      const int line = places != nullptr ? places->GetLocation(field, field->is_repeated() ? 0 : -1).line + 1 : 0;
      if (rule != kRules.end()) {
        if (rule->use != understood) found.push_back({path, &*rule, line});
      } else if (field->message_type() != nullptr && !field->is_map()) {
        const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
        for (int i = 0; i < count; ++i) {
          const int index = field->is_repeated() ? i : -1;
          const auto& child = field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                                   : reflection.GetMessage(message, field);
          look(child, path + ".", places != nullptr ? places->GetTreeForNested(field, index) : nullptr);
        }
      }
    }
  }
};

}  // namespace

std::span<const FieldRule> field_rules() {
  return kRules;
}

std::vector<FieldFinding> find_special_fields(const inference::ModelConfig& config, Places* places) {
  Search search;
  search.look(config, "", places);
  return std::move(search.found);
}

}  // namespace tessera::serve
