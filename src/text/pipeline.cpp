#include "text/pipeline.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace tessera::text {
namespace {

// After these a chat model's answer is over, whichever of them its files name as the end of a text.
constexpr std::array<std::string_view, 7> kEndNames{"<|im_end|>",    "<|eot_id|>",      "<|end|>",   "<end_of_turn>",
                                                    "<|endoftext|>", "<|end_of_text|>", "<|eom_id|>"};

const nlohmann::json& part_of(const nlohmann::json& root, const char* key) {
  static const nlohmann::json none;
  const auto found = root.find(key);
  return found == root.end() ? none : *found;
}

}  // namespace

std::int64_t TokenizerPipeline::id_of(std::string_view token) const {
  const std::int64_t id = added->vocabulary().id_of(token);
  return id >= 0 ? id : model->vocabulary().id_of(token);
}

std::string_view TokenizerPipeline::token_of(std::int64_t id) const {
  const std::string_view token = added->vocabulary().token_of(id);
  return token.empty() ? model->vocabulary().token_of(id) : token;
}

bool TokenizerPipeline::adds(std::int64_t id) const {
  return id >= 0 && !frame.single.empty() && frame.single.front().text < 0 && frame.single.front().id == id;
}

void TokenizerPipeline::add_end_of_generation(std::int64_t id) {
  const auto place = std::ranges::lower_bound(end_of_generation, id);
  if (id >= 0 && (place == end_of_generation.end() || *place != id)) end_of_generation.insert(place, id);
}

void TokenizerPipeline::add_end_of_generation_by_name() {
  for (const std::string_view name : kEndNames)
    if (const std::int64_t id = added->vocabulary().id_of(name); added->is_special(id)) add_end_of_generation(id);
}

TokenizerPipeline read_pipeline(const nlohmann::json& root) {
  TokenizerPipeline result;
  result.model = make_token_model(part_of(root, "model"));
  result.normalizer = make_normalizer(part_of(root, "normalizer"));
  result.pre_tokenizer = make_pre_tokenizer(part_of(root, "pre_tokenizer"));
  result.frame = make_frame(part_of(root, "post_processor"));
  result.decoder = make_decoder(part_of(root, "decoder"));
  result.pieces = make_piece_decoder(part_of(root, "decoder"));
  result.truncation = read_truncation(part_of(root, "truncation"));
  result.pads_alone = !part_of(root, "padding").is_null();
  result.padding = read_padding(part_of(root, "padding"));
  result.added.emplace(part_of(root, "added_tokens"), result.normalizer);
  result.add_end_of_generation_by_name();
  if (result.pads_alone) return result;
  for (const char* name : {"[PAD]", "<pad>", "<|endoftext|>"}) {
    if (result.id_of(name) < 0) continue;
    result.padding.id = result.id_of(name);
    result.padding.token = name;
    break;
  }
  return result;
}

}  // namespace tessera::text
