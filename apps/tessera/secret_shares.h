// Secret-shared inference on the command line (docs/protect.md): tessera protect makes and combines shares, tessera run
// computes on them.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/model.h"

namespace tessera::apps {

struct SharesVerb {
  std::vector<std::string> files;  // two, to write
  std::int64_t runs = 16;
  std::string other;  // a share to add to MODEL, which is one too
};

void add_shares_options(CLI::App& verb, SharesVerb& options);
// Splits all arrays of an .npz file into two files.
void share_arrays(const std::string& arrays, const SharesVerb& options);
void share_model(const Model& model, const SharesVerb& options, bool json);
// Writes the arrays that two .npz files hold shares of.
void combine_shares(const std::string& first, const std::string& second, const std::string& output);

struct SharedRunVerb {
  std::string peer;  // HOST:PORT; "": none
  double timeout_s = 30;
};

void add_shared_run_options(CLI::App& verb, SharedRunVerb& options);
// Computes a share of the output from the share of the input in an .npz file.
void run_on_shares(const SharedRunVerb& options, const std::string& file, const std::string& inputs,
                   const std::string& outputs, bool json);

}  // namespace tessera::apps
