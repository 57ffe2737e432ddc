// Declarations of the reference kernels of this folder, grouped by the file that holds them, for kernel_table.cpp.
// Kernels need not include it: a new operator would rebuild them all, and the linker catches a declaration that matches
// no definition.
#pragma once

#include "backends/backend.h"

namespace tessera::backends::reference {

// image_decoder.cpp
void image_decoder(KernelContext&);

// map.cpp
void zip_map(KernelContext&);
void dict_vectorizer(KernelContext&);
void cast_map(KernelContext&);

// generate.cpp
void constant_of_shape(KernelContext&);
void range(KernelContext&);
void eye_like(KernelContext&);
void one_hot(KernelContext&);

// shape_of.cpp
void shape_of(KernelContext&);
void size_of(KernelContext&);

// sequence.cpp
void sequence_construct(KernelContext&);
void sequence_empty(KernelContext&);
void sequence_insert(KernelContext&);
void sequence_erase(KernelContext&);
void sequence_at(KernelContext&);
void sequence_length(KernelContext&);
void split_to_sequence(KernelContext&);
void concat_from_sequence(KernelContext&);

// optional.cpp
void optional_of(KernelContext&);
void optional_has_element(KernelContext&);
void optional_get_element(KernelContext&);

// window.cpp
void hann_window(KernelContext&);
void hamming_window(KernelContext&);
void blackman_window(KernelContext&);
void mel_weight_matrix(KernelContext&);

// tokenizer.cpp
void tokenizer(KernelContext&);

// string.cpp
void string_concat(KernelContext&);
void string_normalizer(KernelContext&);
void string_split(KernelContext&);
void regex_full_match(KernelContext&);

// identity.cpp
void identity(KernelContext&);
void dropout(KernelContext&);

// unmask.cpp
void unmask(KernelContext&);

// random.cpp
void random_normal(KernelContext&);
void random_normal_like(KernelContext&);
void random_uniform(KernelContext&);
void random_uniform_like(KernelContext&);
void bernoulli(KernelContext&);
void multinomial(KernelContext&);

}  // namespace tessera::backends::reference
