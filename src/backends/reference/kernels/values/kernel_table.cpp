#include "backends/reference/kernels/values/kernel_table.h"

#include "backends/reference/kernels/values/kernels.h"

namespace tessera::backends::reference {

std::span<const KernelEntry> value_kernels() {
  static const KernelEntry table[] = {
      // map
      {.op = "ai.onnx.ml::ZipMap", .name = "reference_zip_map", .function = zip_map},
      {.op = "ai.onnx.ml::DictVectorizer", .name = "reference_dict_vectorizer", .function = dict_vectorizer},
      {.op = "ai.onnx.ml::CastMap", .name = "reference_cast_map", .function = cast_map},
      // image_decoder
      {.op = "ImageDecoder", .name = "reference_image_decoder", .function = image_decoder},
      // generate
      {.op = "ConstantOfShape", .name = "reference_constant_of_shape", .function = constant_of_shape},
      {.op = "Range", .name = "reference_range", .function = range},
      {.op = "EyeLike", .name = "reference_eye_like", .function = eye_like},
      {.op = "OneHot", .name = "reference_one_hot", .function = one_hot},
      // shape_of
      {.op = "Shape", .name = "reference_shape_of", .function = shape_of},
      {.op = "Size", .name = "reference_size_of", .function = size_of},
      // sequence
      {.op = "SequenceConstruct", .name = "reference_sequence_construct", .function = sequence_construct},
      {.op = "SequenceEmpty", .name = "reference_sequence_empty", .function = sequence_empty},
      {.op = "SequenceInsert", .name = "reference_sequence_insert", .function = sequence_insert},
      {.op = "SequenceErase", .name = "reference_sequence_erase", .function = sequence_erase},
      {.op = "SequenceAt", .name = "reference_sequence_at", .function = sequence_at},
      {.op = "SequenceLength", .name = "reference_sequence_length", .function = sequence_length},
      {.op = "SplitToSequence", .name = "reference_split_to_sequence", .function = split_to_sequence},
      {.op = "ConcatFromSequence", .name = "reference_concat_from_sequence", .function = concat_from_sequence},
      // optional
      {.op = "Optional", .name = "reference_optional_of", .function = optional_of},
      {.op = "OptionalHasElement", .name = "reference_optional_has_element", .function = optional_has_element},
      {.op = "OptionalGetElement", .name = "reference_optional_get_element", .function = optional_get_element},
      // window
      {.op = "HannWindow", .name = "reference_hann_window", .function = hann_window},
      {.op = "HammingWindow", .name = "reference_hamming_window", .function = hamming_window},
      {.op = "BlackmanWindow", .name = "reference_blackman_window", .function = blackman_window},
      {.op = "MelWeightMatrix", .name = "reference_mel_weight_matrix", .function = mel_weight_matrix},
      // tokenizer
      {.op = "com.microsoft::Tokenizer", .name = "reference_tokenizer", .function = tokenizer},
      // string
      {.op = "StringConcat", .name = "reference_string_concat", .function = string_concat},
      {.op = "StringNormalizer", .name = "reference_string_normalizer", .function = string_normalizer},
      {.op = "StringSplit", .name = "reference_string_split", .function = string_split},
      {.op = "RegexFullMatch", .name = "reference_regex_full_match", .function = regex_full_match},
      // identity
      {.op = "Identity", .name = "reference_identity", .function = identity},
      {.op = "Dropout", .name = "reference_dropout", .function = dropout},
      // unmask
      {.op = "tessera::Unmask", .name = "reference_unmask", .function = unmask},
      // random
      {.op = "RandomNormal", .name = "reference_random_normal", .function = random_normal},
      {.op = "RandomNormalLike", .name = "reference_random_normal_like", .function = random_normal_like},
      {.op = "RandomUniform", .name = "reference_random_uniform", .function = random_uniform},
      {.op = "RandomUniformLike", .name = "reference_random_uniform_like", .function = random_uniform_like},
      {.op = "Bernoulli", .name = "reference_bernoulli", .function = bernoulli},
      {.op = "Multinomial", .name = "reference_multinomial", .function = multinomial},
  };
  return table;
}

}  // namespace tessera::backends::reference
