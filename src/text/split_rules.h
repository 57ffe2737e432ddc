// How byte-level vocabularies split a text into words, by the names that GGUF files use.
#pragma once

#include <string>

#include "text/pre_tokenizer.h"

namespace tessera::text {

struct SplitRules {
  PreTokenizer pre_tokenizer;
  bool takes_whole_words = false;  // a word that is a token is that token, whatever its merges say
  bool adds_bos = false;           // where the file does not say
};

// Throws Error(unsupported) for a name that is not known, with those that are.
SplitRules split_rules(const std::string& name);

}  // namespace tessera::text
