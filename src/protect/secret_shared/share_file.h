// The file of one party: the program, the masked weights, a seed, and of the second party the dealer's corrections.
//
//   bytes    holds
//   8        "TSRSHARE"
//   4, 4     version, 1; party, 0 or 1
//   8        runs whose random numbers are used up; the one part that changes
//   8        runs in all
//   32       BLAKE2b-256 of everything but the runs that are used up and this digest
//   32       identity of the pair, random
//   32       key of the messages between the two parties
//   32       seed of this party
//   4+n      program
//   8·n      masked weights and biases of each step in turn
//   8·n      corrections: those of each run (the second party alone)
#pragma once

#include <filesystem>

#include "protect/secret_shared/shared_party.h"

namespace tessera::protect {

struct ShareFile {
  int party = 0;
  std::uint64_t used = 0, runs = 0;
  PublicId pair{};
  Secret message_key, seed;
  SharedProgram program;
  std::vector<MaskedWeights> weights;
  Words corrections;  // of all runs

  Material material(std::uint64_t run) const;
};

// The two files of a net, which are wiped at the end.
class DealtFiles {
 public:
  DealtFiles(std::vector<std::byte> a, std::vector<std::byte> b) : first(std::move(a)), second(std::move(b)) {}
  ~DealtFiles();
  DealtFiles(const DealtFiles&) = delete;
  DealtFiles& operator=(const DealtFiles&) = delete;

  std::vector<std::byte> first, second;
};
// Throws Error: invalid_argument for weights above kMostShared, over_budget.
DealtFiles deal_files(const SharedNet& net, std::uint64_t runs);

// Throws Error: invalid_model, over_budget.
ShareFile read_share_file(std::span<const std::byte> bytes);

// A file that is locked against other runs while this lives.
class LockedShareFile {
 public:
  // Throws Error: not_found, io, invalid_argument (another process uses it), and what read_share_file throws.
  explicit LockedShareFile(const std::filesystem::path& path);
  ~LockedShareFile();
  LockedShareFile(const LockedShareFile&) = delete;
  LockedShareFile& operator=(const LockedShareFile&) = delete;

  const ShareFile& content() const { return content_; }
  // Marks all runs up to this one as used, on the disk. Throws Error: io.
  void use(std::uint64_t run);

 private:
  int descriptor_ = -1;
  ShareFile content_;
};

// Real numbers and their fixed-point form.
Word to_fixed_point(double value, int fraction_bits);
double from_fixed_point(Word value);

}  // namespace tessera::protect
