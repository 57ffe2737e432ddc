// One of the two parties of a secret-shared computation.
//
// Products use Beaver's multiplication triples (Beaver, "Efficient multiparty protocols using circuit randomization",
// CRYPTO 1991), of matrices as in Mohassel and Zhang's SecureML (IEEE S&P 2017). Truncation opens a masked number and
// corrects its wrap by its highest bit (Dalskov, Escudero and Keller, arXiv:1910.12435): the result is off by less than
// one unit in the last place, always. A comparison opens a masked number and compares it with the mask, of which the
// parties share the bits, by a tree of depth 6 (Damgård et al., "Unconditionally secure constant-rounds multi-party
// computation for equality, comparison, bits and exponentiation", TCC 2006). The security is against parties that
// follow the protocol (semi-honest) and do not collude.
#pragma once

#include "protect/secret_shared/keystream.h"

namespace tessera::protect {

// The way to the other party. Both call in turn with equally many words.
class PeerChannel {
 public:
  virtual ~PeerChannel() = default;
  // Sends `own` and receives as many words. Throws Error(failed).
  virtual void exchange(std::span<const Word> own, std::span<Word> other) = 0;
};

// Weights as a party knows them: w − b in the clear, and its share of the mask b.
struct MaskedWeights {
  Words masked, mask;               // w − b (equal for both parties), and the share of b
  Words masked_biases, bias_masks;  // likewise, with twice the fraction bits
};

// The share of the result. `weights` has an entry for each step.
Words compute_shared(const SharedProgram& program, int party, std::span<const MaskedWeights> weights,
                     std::span<const Word> input, Material material, PeerChannel& peer);

}  // namespace tessera::protect
