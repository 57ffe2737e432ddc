#include "protect/secret_shared/shared_party.h"

#include <algorithm>
#include <utility>

#include "tessera/secret_shared.h"

namespace tessera::protect {
namespace {

// Puts bit i where the six digits of i, read backwards, say. Halves of the result then hold neighbours of the word.
Word with_reversed_indices(Word word) {
  Word result = 0;
  for (int i = 0; i < 64; ++i) {
    int place = 0;
    for (int digit = 0; digit < 6; ++digit) place |= (i >> digit & 1) << (5 - digit);
    result |= (word >> i & 1) << place;
  }
  return result;
}

constexpr Word kOffset = Word{1} << 62;  // makes numbers of magnitudes below 2^62 non-negative

class SharedParty {
 public:
  SharedParty(int party, Material material, PeerChannel& peer)
      : party_(party), material_(std::move(material)), peer_(peer) {}

  Words linear(const SharedStep& step, const MaskedWeights& weights, const Words& x) {
    const Words mask = material_.own(x.size());
    const Words open = open_sum(difference(x, mask));
    Words y = material_.dependent(static_cast<std::size_t>(step.outputs()));
    Words share = weights.mask;
    if (is_first())
      for (std::size_t i = 0; i < share.size(); ++i) share[i] += weights.masked[i];
    convolve(step, open, share, y);
    convolve(step, mask, weights.masked, y);
    const auto pixels = static_cast<std::size_t>(step.y.output * step.x.output);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::size_t feature = i / pixels % static_cast<std::size_t>(step.features);
      y[i] += weights.bias_masks[feature] + (is_first() ? weights.masked_biases[feature] : 0);
    }
    return truncate(std::move(y));
  }

  Words rectify(const Words& x) { return multiply(x, as_numbers(not_negative(x))); }

  Words maximum(const SharedStep& step, const Words& x) {
    std::vector<Words> left;
    for (const std::vector<std::uint32_t>& window : windows_of(step)) {
      Words& values = left.emplace_back();
      for (const std::uint32_t index : window) values.push_back(x[index]);
    }
    while (true) {
      Words differences, seconds;
      for (const Words& values : left) {
        for (std::size_t i = 0; i + 1 < values.size(); i += 2) {
          differences.push_back(values[i] - values[i + 1]);
          seconds.push_back(values[i + 1]);
        }
      }
      if (differences.empty()) break;
      const Words rectified = rectify(differences);
      std::size_t pair = 0;
      for (Words& values : left) {
        Words winners;
        for (std::size_t i = 0; i + 1 < values.size(); i += 2, ++pair)
          winners.push_back(seconds[pair] + rectified[pair]);
        if (values.size() % 2 == 1) winners.push_back(values.back());
        values = std::move(winners);
      }
    }
    Words result;
    for (const Words& values : left) result.push_back(values[0]);
    return result;
  }

  Words average(const SharedStep& step, const Words& x) {
    Words sums;
    for (const std::vector<std::uint32_t>& window : windows_of(step)) {
      Word sum = 0;
      for (const std::uint32_t index : window) sum += x[index];
      sums.push_back(sum * average_factor(step, window.size()));
    }
    return truncate(std::move(sums));
  }

 private:
  bool is_first() const { return party_ == 0; }

  static Words difference(const Words& a, const Words& b) {
    Words result(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) result[i] = a[i] - b[i];
    return result;
  }

  Words exchanged(const Words& own) {
    Words other(own.size());
    peer_.exchange(own, other);
    return other;
  }
  Words open_sum(const Words& own) {
    Words open = exchanged(own);
    for (std::size_t i = 0; i < own.size(); ++i) open[i] += own[i];
    return open;
  }
  Words open_xor(const Words& own) {
    Words open = exchanged(own);
    for (std::size_t i = 0; i < own.size(); ++i) open[i] ^= own[i];
    return open;
  }

  // Divides by 2^fraction bits.
  Words truncate(Words x) {
    const Words mask = material_.own(x.size()), high = material_.dependent(x.size()),
                top = material_.dependent(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += mask[i] + (is_first() ? kOffset : 0);
    const Words open = open_sum(x);
    Words y(x.size());
    for (std::size_t i = 0; i < y.size(); ++i) {
      // The masked number wrapped if the mask's highest bit is set and the sum's is not.
      const Word wraps = (open[i] >> 63) == 0 ? top[i] << (64 - kSharedFractionBits) : 0;
      y[i] = wraps - high[i];
      if (is_first()) y[i] += (open[i] >> kSharedFractionBits) - (kOffset >> kSharedFractionBits);
    }
    return y;
  }

  // Bit by bit, of XOR shares.
  Words conjunction(const Words& x, const Words& y) {
    const Words a = material_.own(x.size()), b = material_.own(x.size());
    Words z = material_.dependent(x.size());
    Words masked(2 * x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      masked[i] = x[i] ^ a[i];
      masked[x.size() + i] = y[i] ^ b[i];
    }
    const Words open = open_xor(masked);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Word d = open[i], e = open[x.size() + i];
      z[i] ^= (d & b[i]) ^ (e & a[i]) ^ (is_first() ? d & e : 0);
    }
    return z;
  }

  // An XOR share, in bit 0, of whether x as a signed number is 0 or more.
  Words not_negative(const Words& x) {
    const std::size_t count = x.size();
    Words mask = material_.own(count);
    const Words bits = material_.dependent(count);  // an XOR share of the mask
    for (std::size_t i = 0; i < count; ++i) mask[i] += x[i];
    const Words open = open_sum(mask);
    // x = open − mask. Bit 63 of it is that of open and of the mask, and the borrow of the bits below: whether open is
    // less than the mask there. Two words tell of each bit, then of each range of bits, whether open is less and
    // whether it is equal. A step joins neighbouring ranges.
    constexpr Word kTop = Word{1} << 63;
    Words less(count), equal(count);
    for (std::size_t i = 0; i < count; ++i) {
      less[i] = ~open[i] & bits[i] & ~kTop;
      equal[i] = ((is_first() ? ~open[i] : 0) ^ bits[i]) & ~kTop;
      if (is_first()) equal[i] |= kTop;
      less[i] = with_reversed_indices(less[i]);
      equal[i] = with_reversed_indices(equal[i]);
    }
    for (int width = 32; width >= 1; width /= 2) {
      const Word low = width == 32 ? 0xFFFFFFFF : (Word{1} << width) - 1;
      Words highs(count), lows(count);
      for (std::size_t i = 0; i < count; ++i) {
        const Word high = equal[i] >> width;
        highs[i] = high | high << width;
        lows[i] = (less[i] & low) | (equal[i] & low) << width;
      }
      const Words both = conjunction(highs, lows);
      for (std::size_t i = 0; i < count; ++i) {
        less[i] = (less[i] >> width ^ both[i]) & low;
        equal[i] = both[i] >> width & low;
      }
    }
    Words result(count);
    for (std::size_t i = 0; i < count; ++i)
      result[i] = (less[i] ^ bits[i] >> 63 ^ (is_first() ? open[i] >> 63 ^ 1 : 0)) & 1;
    return result;
  }

  // Bits in XOR shares as the numbers 0 and 1.
  Words as_numbers(const Words& bits) {
    Words mask = material_.own(bits.size());
    const Words number = material_.dependent(bits.size());  // of the mask's bit 0
    for (std::size_t i = 0; i < bits.size(); ++i) mask[i] ^= bits[i];
    const Words open = open_xor(mask);
    Words result(bits.size());
    for (std::size_t i = 0; i < bits.size(); ++i) {
      const bool flips = (open[i] & 1) != 0;
      result[i] = flips ? (is_first() ? 1 : 0) - number[i] : number[i];
    }
    return result;
  }

  Words multiply(const Words& x, const Words& y) {
    const Words a = material_.own(x.size()), b = material_.own(x.size());
    Words z = material_.dependent(x.size());
    Words masked(2 * x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      masked[i] = x[i] - a[i];
      masked[x.size() + i] = y[i] - b[i];
    }
    const Words open = open_sum(masked);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Word d = open[i], e = open[x.size() + i];
      z[i] += d * b[i] + e * a[i] + (is_first() ? d * e : 0);
    }
    return z;
  }

  int party_;
  Material material_;
  PeerChannel& peer_;
};

}  // namespace

Words compute_shared(const SharedProgram& program, int party, std::span<const MaskedWeights> weights,
                     std::span<const Word> input, Material material, PeerChannel& peer) {
  SharedParty self(party, std::move(material), peer);
  std::vector<Words> values{Words(input.begin(), input.end())};
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const SharedStep& step = program.steps[i];
    const Words& x = values[step.input];
    switch (step.kind) {
      case SharedStepKind::convolve:
        values.push_back(self.linear(step, weights[i], x));
        break;
      case SharedStepKind::rectify:
        values.push_back(self.rectify(x));
        break;
      case SharedStepKind::pool_max:
        values.push_back(self.maximum(step, x));
        break;
      case SharedStepKind::pool_average:
        values.push_back(self.average(step, x));
        break;
      case SharedStepKind::add: {
        Words sum = x;
        for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += values[step.second][j];
        values.push_back(std::move(sum));
        break;
      }
    }
  }
  return std::move(values[program.result]);
}

}  // namespace tessera::protect
