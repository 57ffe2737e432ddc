// Writes a model as it is after Tessera's passes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/pass_change.h"
#include "tessera/session.h"

namespace tessera {

namespace io {
class SectionEncoder;
}

struct OptimiseOptions {
  SessionOptions session;                // the device to optimise for, passes to leave out, what may be folded
  std::vector<std::string> only_passes;  // if not empty, all other passes are left out too
  GraphMeasure measure = {};             // if not null, called before and after each pass
  // .onnx: the opset to write, 9 or newer. Newer operators are decomposed into older ones; where that is impossible,
  // Error(unsupported) lists all of them. Nothing: the opset of the model, or the lowest one above it that has all
  // operators of the optimised graph.
  std::optional<std::int64_t> opset = {};
  // Progress, if not null: receives a description of the work at hand and the fraction of the whole that is done (0 to
  // 1; 1 at the end).
  std::function<void(std::string_view what, double done)> progress = {};
  // For tessera/protect.h: protects the .tsr file that is written. If null, what is made from a protected model is
  // protected for the keys of that one.
  std::shared_ptr<const io::SectionEncoder> encoder = nullptr;
  // For tessera/obfuscate.h: if not null, what is written to a .tsr is made of the graph that it returns for the
  // optimised one.
  std::function<ir::Graph(ir::Graph)> rewrite = {};
};

struct OptimiseReport {
  std::int64_t nodes_before = 0, nodes_after = 0;
  GraphCost cost_before = {}, cost_after = {};
  // The passes in the order in which they ran. A model whose shapes are all numbers goes through all passes twice,
  // because the first round makes shapes known.
  std::vector<PassChange> passes;
  std::int64_t packings = 0, packed_bytes = 0;  // .tsr: weights stored in the kernels' own layout
  std::string
      why_not_packed;  // .tsr: why no plan could be made ahead, so that weights are packed after loading; else ""
  std::vector<std::string>
      own_operators;  // .onnx: operators that only Tessera has and that cannot be expressed by others
  // .onnx: the opset of the model (0 if it names none) and of the file, and, if the latter is higher although no opset
  // was asked for, the operators that need it.
  std::int64_t opset_before = 0, opset = 0;
  std::vector<std::string> opset_raised_by;
  // .tsr: operators that read or write quantised data as real numbers, because no integer form of them was found
  std::vector<std::string> not_lowered;
  std::int64_t file_bytes = 0;  // including the second file that holds very large weights
};

// Writes the optimised model. A path that ends in ".onnx" gives an ONNX file that any program can read; one that ends
// in ".tsr" a package for this machine, which loads without further work (docs/package.md). An existing file is either
// replaced completely or stays as it was. Throws Error: invalid_argument (another ending; an unknown pass, device or
// opset), unsupported, over_budget, io.
TESSERA_API OptimiseReport optimise(const Model& model, const std::filesystem::path& path,
                                    const OptimiseOptions& options = {});

// Throws Error(invalid_argument) unless the path ends in ".onnx" or ".tsr".
TESSERA_API void check_output_name(const std::filesystem::path& path);

// Checks every byte of a .tsr file, including the weights, which loading does not check, against the checksums in it.
// Throws Error: not_found, io, invalid_model, unsupported.
TESSERA_API void verify_package(const std::filesystem::path& path);
// Whether the file begins as .tsr files do. Throws Error: not_found, io.
TESSERA_API bool is_package(const std::filesystem::path& path);

}  // namespace tessera
