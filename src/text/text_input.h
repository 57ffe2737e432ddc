// Texts as the inputs of a language model.
#pragma once

#include <span>
#include <string>

#include "tessera/named_values.h"
#include "tessera/tokenizer.h"
#include "tessera/value_description.h"

namespace tessera::text {

// The inputs [texts, tokens] that encoder models declare, of the texts' tokens padded to one length: input_ids,
// attention_mask (or input_mask) and token_type_ids (or segment_ids), each where the model has it, in the integer type
// that it declares. What the model fixes or limits by its shape is kept: texts are cut and padded to a fixed number of
// tokens. Other models get at most `max_length` tokens of a text; 0: as the tokenizer's file says. Throws
// Error(invalid_argument) where the model has no input for token numbers, or fixes another number of texts.
NamedValues text_inputs(std::span<const ValueDescription> model_inputs, const Tokenizer& tokenizer,
                        std::span<const std::string> texts, std::int64_t max_length = 0);

}  // namespace tessera::text
