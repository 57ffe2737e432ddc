// Secret-shared inference: two processes that each hold one additive share of a model and of its input compute shares
// of its output, and neither learns weights, input or output. docs/protect.md says what they do learn and what it
// costs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "tessera/export.h"
#include "tessera/model.h"
#include "tessera/tensor.h"

namespace tessera {

// Real numbers are multiples of 2^-16 modulo 2^64.
inline constexpr int kSharedFractionBits = 16;
inline constexpr double kMostShared = 1 << 20;  // the largest magnitude of a weight or input

struct ShareReport {
  std::string input, output;  // names in the model
  Shape input_shape, output_shape;
  std::int64_t runs = 0;                           // that the files have random numbers for
  std::int64_t first_bytes = 0, second_bytes = 0;  // of the files
};

// Splits a model with one float32 input of fixed shape and one output into two files, with the correlated random
// numbers that `runs` runs use up: the caller is the dealer of the protocol and must not give both files to one party.
// Throws Error: unsupported, listing the nodes that cannot be computed on shares; invalid_argument for dimensions that
// are not fixed and weights that are too large; io.
TESSERA_API ShareReport share_model(const Model& model, const std::filesystem::path& first,
                                    const std::filesystem::path& second, std::int64_t runs);

// Two random uint64 tensors whose sum stands for a float32 tensor. Throws Error(invalid_argument) for other types and
// for elements above kMostShared.
struct TensorShares {
  Tensor first, second;
};
TESSERA_API TensorShares share_tensor(const Tensor& tensor);
// The float32 tensor that two shares stand for. Throws Error(invalid_argument) unless both are uint64 of one shape.
TESSERA_API Tensor combine_shares(const Tensor& first, const Tensor& second);

struct SharedRunOptions {
  double timeout_s = 30;  // for the peer to come, and for each of its messages
};

struct SharedRunReport {
  std::string input, output;
  std::int64_t rounds = 0;         // of messages
  std::int64_t bytes_sent = 0;     // and as many are received
  std::int64_t runs_left = 0;      // that the file has random numbers for
  double wait_s = 0, total_s = 0;  // for the peer; and in all, after it has come
};

// Which input and output the shares in a file are for, and how many runs are left. Throws Error as run_secret_shared
// does for the file.
TESSERA_API ShareReport describe_shares(const std::filesystem::path& file);

// Computes this party's share of the output. The process with the first share listens at `peer`, HOST:PORT, and the
// other one connects to it. The random numbers of a run are marked as used in the file before anything that depends on
// them is sent. Throws Error: not_found, io, invalid_model (a file that is no share or was changed), invalid_argument
// (another input, an address without a port, a file that is in use or used up, a peer with other shares), failed (the
// peer went, was not heard of in time, or sent what is not authentic).
TESSERA_API Tensor run_secret_shared(const std::filesystem::path& file, const std::string& peer, const Tensor& input,
                                     const SharedRunOptions& options = {}, SharedRunReport* report = nullptr);

}  // namespace tessera
