// Qwen 2 (biases of queries, keys and values) and Qwen 3 (norms of each head of queries and keys): both follow from the
// weights that the file has.
#include "models/language/architectures.h"

namespace tessera::models {

void adapt_qwen(LanguageConfig&, const ConfigValues&, const WeightSource&) {}

}  // namespace tessera::models
