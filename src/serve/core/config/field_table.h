// The use that this server makes of each field of Triton's model configuration.
#pragma once

#include <google/protobuf/text_format.h>
#include <model_config.pb.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::serve {

enum class FieldUse : std::uint8_t { understood, ignored, refused };

// A field by its path, such as "dynamic_batching.preserve_ordering". A rule holds for all fields within it, unless the
// table has rules for those. `reason` says why the field is ignored or refused.
struct FieldRule {
  std::string_view path;
  FieldUse use = FieldUse::understood;
  std::string_view reason = {};
};
std::span<const FieldRule> field_rules();

// A field that a configuration sets, and that is ignored or refused.
struct FieldFinding {
  std::string path;
  const FieldRule* rule = nullptr;
  int line = 0;  // of the text that was parsed, from 1 on; 0: unknown
};

// The fields of the configuration that are ignored or refused. `places` says where they stand in the text; null: it
// came in another form.
std::vector<FieldFinding> find_special_fields(const inference::ModelConfig& config,
                                              google::protobuf::TextFormat::ParseInfoTree* places);

}  // namespace tessera::serve
