// Encodes texts as the inputs of a language model.
#pragma once

#include <span>
#include <string>

#include "tessera/named_values.h"
#include "tessera/tokenizer.h"
#include "tessera/value_description.h"

namespace tessera::text {

// The inputs of an encoder model for texts, each [texts, tokens] with all texts padded to one length: input_ids,
// attention_mask (or input_mask) and token_type_ids (or segment_ids), those that the model has, in the integer types
// that it declares. Texts are cut and padded to the number of tokens that the model's shapes fix, if they do. Other
// models get at most `max_length` tokens of a text; 0: the limit in the tokenizer's file. Throws
// Error(invalid_argument) where the model has no input for token numbers, or fixes another number of texts.
NamedValues text_inputs(std::span<const ValueDescription> model_inputs, const Tokenizer& tokenizer,
                        std::span<const std::string> texts, std::int64_t max_length = 0);

}  // namespace tessera::text
