// The steps of a tokenizer, in the order in which a text passes them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "text/added_tokens.h"
#include "text/decoder.h"
#include "text/length.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/token_model.h"

namespace tessera::text {

struct TokenizerPipeline {
  std::optional<AddedTokens> added;  // always set; it has no default
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::unique_ptr<TokenModel> model;
  TokenFrame frame;
  // Null: `pieces` decode one after the other.
  Decoder decoder;
  PieceDecoder pieces;
  Truncation truncation;
  bool pads_alone = false;  // an encoding outside a batch is padded too
  Padding padding;
  std::int64_t bos = -1, eos = -1;  // −1: not stated
  std::vector<std::int64_t> end_of_generation;

  std::int64_t id_of(std::string_view token) const;  // −1: there is none
  std::string_view token_of(std::int64_t id) const;  // "": there is none
  bool adds(std::int64_t id) const;                  // whether the frame of one text begins with the token
  void add_end_of_generation(std::int64_t id);       // kept ascending; a negative number is left out
  void add_end_of_generation_by_name();              // special tokens with the names that chat models use
};

// From a tokenizer.json. Throws Error as Tokenizer::from_json says, and exceptions of nlohmann::json.
TokenizerPipeline read_pipeline(const nlohmann::json& root);
// From the parts of a GGUF file. Throws Error as Tokenizer::from_parts says.
TokenizerPipeline make_pipeline(const TokenizerParts& parts);

}  // namespace tessera::text
