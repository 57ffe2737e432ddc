// A request for inference and its answer, whichever protocol they came by.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/tensor.h"

namespace tessera::serve {

// An input or output of a model.
struct TensorInfo {
  std::string name;
  DType dtype = DType::undefined;
  Shape shape;  // as a client sends or receives it, with the batch first; -1: any size
};

// Bytes of a shared-memory region that a client registered.
struct RegionPart {
  std::string region;
  std::int64_t offset = 0, byte_size = 0;
};

struct InferenceInput {
  std::string name;
  DType dtype = DType::undefined;
  Shape shape;
  Tensor tensor;                     // without a value where the data lie in shared memory
  std::optional<RegionPart> region;  // where they lie then
};

struct RequestedOutput {
  std::string name;
  bool binary = false;               // HTTP: behind the JSON text, not in it
  std::int64_t classes = 0;          // of the largest so many elements, "value:index:label" instead of all elements
  std::optional<RegionPart> region;  // to be written there instead of being sent
};

// Which sequence of requests to a model with states a request belongs to: a number, or a text instead of it.
struct SequenceId {
  std::uint64_t number = 0;
  std::string text;
  bool is_none() const { return number == 0 && text.empty(); }
  friend auto operator<=>(const SequenceId&, const SequenceId&) = default;
};

struct SequencePart {
  SequenceId id;
  bool is_start = false, is_end = false;
};

struct InferenceRequest {
  std::string model, version;  // version "": the server's choice
  std::string id;
  std::vector<InferenceInput> inputs;
  std::vector<RequestedOutput> outputs;  // empty: all
  bool binary_by_default = false;        // of outputs that are not listed
  std::string routing_key;               // requests with equal keys get one version of the model; "": by their id
  std::uint64_t priority = 0;            // 1 goes first; 0: the model's default
  SequencePart sequence;                 // models without states pass it over
  std::int64_t timeout_ns = 0;           // from the arrival to the answer; 0: none
};

struct OutputTensor {
  std::string name;
  Tensor tensor;
};

struct InferenceResponse {
  std::string model, version, id;
  std::vector<OutputTensor> outputs;
  bool draws_random_numbers = false;  // an equal request may get another answer
};

}  // namespace tessera::serve
