// Writing a model as it is after the passes that Tessera runs on it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/pass_change.h"
#include "tessera/session.h"

namespace tessera {

struct OptimiseOptions {
  SessionOptions session;                // the device to optimise for, passes to leave out, what may be folded
  std::vector<std::string> only_passes;  // not empty: the others are left out too
  GraphMeasure measure = {};             // not null: asked before and after each pass
  // .onnx: the version of ONNX's operator set to write, 9 or newer. Younger operators are written out in older ones;
  // where that is impossible, Error(unsupported) lists all of them. Nothing: the version of the model, or the lowest
  // above it that has its operators.
  std::optional<std::int64_t> opset = {};
  // Not null: told what is being done, and which part of the whole is done (0 to 1, at the end 1).
  std::function<void(std::string_view what, double done)> progress = {};
};

struct OptimiseReport {
  std::int64_t nodes_before = 0, nodes_after = 0;
  GraphCost cost_before = {}, cost_after = {};
  // In order. A model whose shapes are all numbers goes through all passes twice, because the first time makes shapes
  // known.
  std::vector<PassChange> passes;
  std::int64_t packings = 0, packed_bytes = 0;  // .tsr: weights stored in the kernels' own layout
  std::string
      why_not_packed;  // .tsr: why no plan could be made ahead, so that weights are packed after loading; else ""
  std::vector<std::string>
      own_operators;  // .onnx: operators that only Tessera has and that cannot be expressed by others
  // .onnx: the operator set version of the model (0 if it names none) and of the file; if the latter is higher though
  // none was asked for, the operators that need it.
  std::int64_t opset_before = 0, opset = 0;
  std::vector<std::string> opset_raised_by;
  // .tsr: operators that read or write quantised data as real numbers, because no integer form of them was found
  std::vector<std::string> not_lowered;
  std::int64_t file_bytes = 0;  // with the second file that very large weights are in
};

// Writes the optimised model. A path that ends in ".onnx" gets ONNX's operators, for any program; one that ends in
// ".tsr" a package for this machine, which loads without work (docs/package.md). A file of that name is either replaced
// completely or stays as it was. Throws Error: invalid_argument (another ending, an unknown pass, device or operator
// set version), unsupported, over_budget, io.
TESSERA_API OptimiseReport optimise(const Model& model, const std::filesystem::path& path,
                                    const OptimiseOptions& options = {});

// Throws Error(invalid_argument) unless the path ends in ".onnx" or ".tsr".
TESSERA_API void check_output_name(const std::filesystem::path& path);

// Checks every byte of a .tsr file against the checksums in it, the weights too, which loading does not look at. Throws
// Error: not_found, io, invalid_model, unsupported.
TESSERA_API void verify_package(const std::filesystem::path& path);
// Whether the file begins as .tsr files do. Throws Error: not_found, io.
TESSERA_API bool is_package(const std::filesystem::path& path);

}  // namespace tessera
