// Decoders of language models as graphs: one step over rows of tokens that belong to any sequences.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/numbers/block_format.h"
#include "ir/graph.h"
#include "tessera/tensor.h"

namespace tessera::models {

// Positions of one page of the cache of keys and values.
inline constexpr std::int64_t kCachePageRows = 32;
// The most layers that a configuration may state, and the largest size of any part of a layer.
inline constexpr std::int64_t kMostLayers = 1024, kMostSize = 1 << 20;

// The values of a model's configuration by the keys of GGUF files, without the architecture's name:
// "attention.head_count". Functions throw Error(invalid_model) for a value of another kind.
class ConfigValues {
 public:
  virtual ~ConfigValues() = default;
  // The architecture as the file names it: "llama".
  virtual std::string architecture() const = 0;
  virtual std::optional<std::int64_t> integer(std::string_view key) const = 0;
  virtual std::optional<double> number(std::string_view key) const = 0;
  virtual std::optional<std::string> text(std::string_view key) const = 0;
  // One for each layer; empty where the key is missing. "attention.layer_windows" are the windows of the layers where
  // the file states each of them.
  virtual std::vector<std::int64_t> integers(std::string_view key) const = 0;
  // Whether rows of Q and K are stored in the order of GGUF files of the architecture "llama", which turn neighbouring
  // elements of a head; other files turn element i with element i + half.
  virtual bool turns_neighbours() const = 0;
};

// A matrix of `rows` rows of `columns` elements in blocks; a vector is one row. `tensor` has the bytes, of u8.
struct LanguageWeight {
  Tensor tensor;
  base::BlockFormat format = base::BlockFormat::f32;
  std::int64_t rows = 0, columns = 0;
};

// The weights by the names of GGUF files: "blk.0.attn_q.weight".
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual std::optional<LanguageWeight> find(std::string_view name) const = 0;
};

enum class FeedForwardActivation : std::uint8_t { silu, gelu_tanh };

// How positions turn queries and keys. Su et al., "RoFormer" (arXiv:2104.09864).
struct RotaryTable {
  double base = 10000;
  double linear_factor = 1;      // positions are divided by it
  double magnitude = 1;          // of cosines and sines
  std::vector<double> divisors;  // of the frequencies, one for each pair; empty: all 1
};

struct LanguageLayer {
  std::int64_t window = 0;  // the positions that a query sees, its own among them; 0: all before it
  std::size_t rotary = 0;   // of LanguageConfig::rotary
};

struct LanguageConfig {
  std::string architecture;
  std::int64_t hidden = 0, feed_forward = 0, heads = 0, kv_heads = 0, head_size = 0, value_size = 0, context = 0;
  std::int64_t rotated = 0;            // elements of a head that positions turn
  std::int64_t stated_vocabulary = 0;  // that the configuration states; 0: nothing
  double epsilon = 1e-5;               // of the normalisations
  double query_scale = 0;              // of scores
  double embedding_scale = 1;
  double score_softcap = 0, logit_softcap = 0;  // 0: none
  FeedForwardActivation activation = FeedForwardActivation::silu;
  bool turns_neighbours = false;
  std::vector<RotaryTable> rotary;
  std::vector<LanguageLayer> layers;
};

// The names of all architectures, for messages and documents.
std::vector<std::string_view> language_architectures();

// Reads and checks the configuration for a context of at most `context` positions (0: the model's own). Throws Error:
// unsupported, naming the architecture or the part of it that is not supported; invalid_model for missing keys and
// sizes and numbers that do not fit.
LanguageConfig read_language_config(const ConfigValues& values, const WeightSource& weights, std::int64_t context = 0);

struct LanguageBuildOptions {
  std::int64_t pages = 0;         // of each cache
  DType cache_type = DType::f16;  // or f32, i8
  bool exact = false;             // activations are not rounded before products
};

// A step. Inputs, all of i64: ids, positions and sequence [rows], pages [sequences, columns] and wanted [wanted] (see
// ops/attention/paged_cache.h). Output: logits [wanted, vocabulary] of the wanted rows. The variables
// "key_cache.N" and "value_cache.N" hold the keys and values of layer N, [pages, kv_heads, kCachePageRows, size].
// Throws Error(invalid_model) for weights that are missing or of another shape than the configuration says.
ir::Graph build_language_model(const LanguageConfig& config, const WeightSource& weights,
                               const LanguageBuildOptions& options);
// The rows of the table of embeddings.
std::int64_t vocabulary_of(const LanguageConfig& config, const WeightSource& weights);

}  // namespace tessera::models
