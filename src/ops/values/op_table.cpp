#include "ops/values/op_table.h"

#include "ops/values/generate.h"
#include "ops/values/identity.h"
#include "ops/values/image_decoder.h"
#include "ops/values/map.h"
#include "ops/values/optional.h"
#include "ops/values/random.h"
#include "ops/values/sequence.h"
#include "ops/values/shape_of.h"
#include "ops/values/string.h"
#include "ops/values/tokenizer.h"
#include "ops/values/unmask.h"
#include "ops/values/window.h"

namespace tessera::ops {

std::span<const OpDef* const> value_ops() {
  static constexpr const OpDef* table[] = {
      // generate
      &constant_of_shape,
      &range,
      &eye_like,
      &one_hot,
      // shape_of
      &shape_of,
      &size_of,
      // sequence
      &sequence_construct,
      &sequence_empty,
      &sequence_insert,
      &sequence_erase,
      &sequence_at,
      &sequence_length,
      &split_to_sequence,
      &concat_from_sequence,
      // optional
      &optional_of,
      &optional_has_element,
      &optional_get_element,
      // window
      &hann_window,
      &hamming_window,
      &blackman_window,
      &mel_weight_matrix,
      // tokenizer
      &tokenizer,
      // string
      &string_concat,
      &string_normalizer,
      &string_split,
      &regex_full_match,
      // image_decoder
      &image_decoder,
      // map
      &zip_map,
      &dict_vectorizer,
      &cast_map,
      // identity
      &identity,
      &dropout,
      // unmask
      &unmask,
      // random
      &random_normal,
      &random_normal_like,
      &random_uniform,
      &random_uniform_like,
      &bernoulli,
      &multinomial,
  };
  return table;
}

}  // namespace tessera::ops
