// Reads a recipe of Deep Compression from a TOML file.
#include "base/error.h"
#include "io/toml_table.h"
#include "tessera/deep_compression.h"
#include "train/config/config.h"

namespace tessera {
namespace {

using io::TomlTable;

StageOptions read_stage(TomlTable table, const char* name) {
  StageOptions stage;
  stage.learning_rate = table.number("learning_rate", 0);
  stage.epochs = table.whole("epochs", 0);
  require(stage.learning_rate >= 0 && stage.epochs >= 0, ErrorKind::invalid_argument,
          "{}.learning_rate is {} and {}.epochs is {}, expected at least 0", name, stage.learning_rate, name,
          stage.epochs);
  return stage;
}

int checked_bits(std::int64_t bits, const std::string& place) {
  require(bits >= 1 && bits <= 8, ErrorKind::invalid_argument, "{} is {}, expected 1 to 8 bits", place, bits);
  return static_cast<int>(bits);
}

ShareOptions read_share(TomlTable table) {
  ShareOptions share;
  share.bits = checked_bits(table.whole("bits", share.bits), "share.bits");
  for (const auto& [pattern, bits] : table.table("layers").all_wholes())
    share.layers[pattern] = checked_bits(bits, "share.layers." + pattern);
  share.exclude = table.texts("exclude");
  return share;
}

DictionaryOptions read_dictionary(TomlTable table) {
  DictionaryOptions dictionary;
  dictionary.vectors = table.whole("vectors", dictionary.vectors);
  dictionary.terms = table.whole("terms", dictionary.terms);
  dictionary.least_saved = table.number("least_saved", dictionary.least_saved);
  dictionary.exclude = table.texts("exclude");
  require(dictionary.vectors >= 1 && dictionary.terms >= 1, ErrorKind::invalid_argument,
          "dictionary.vectors is {} and dictionary.terms is {}, expected at least 1", dictionary.vectors,
          dictionary.terms);
  return dictionary;
}

}  // namespace

CompressionRecipe parse_compression_recipe(const std::string& toml, const std::string& where,
                                           const std::vector<std::string>& settings) {
  TomlTable root = TomlTable::parse(toml, where, settings);
  CompressionRecipe recipe;
  recipe.training = train::read_training_config(root);
  recipe.retrain = read_stage(root.table("retrain"), "retrain");
  recipe.tune = read_stage(root.table("tune"), "tune");
  if (root.has("dictionary")) recipe.dictionary = read_dictionary(root.table("dictionary"));
  if (root.has("share") || !recipe.dictionary) recipe.share = read_share(root.table("share"));
  recipe.folds = root.whole("folds", 0);
  root.check_all_read();
  return recipe;
}

}  // namespace tessera
