// Runs ONNX backend test cases: a model, inputs, and the outputs that are right.
// Layout and tolerances as in onnx/backend/test (onnx 1.22): a case is a folder with model.onnx and test_data_set_*
// folders of input_*.pb and output_*.pb, or a file NAME.onnx beside NAME_output_*.pb, whose inputs are a fixed ramp.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tessera/tensor.h"

namespace tessera::conformance {

enum class CaseOutcome { passed, failed, unsupported };

struct CaseResult {
  std::string name;
  CaseOutcome outcome = CaseOutcome::passed;
  std::string reason;  // when not passed
  // Values differ, but the model draws random numbers and ONNX does not say which: element types and shapes agree.
  bool random_values = false;
  bool random = false;  // values are random by definition: only types and shapes were compared
};

// numpy.testing.assert_allclose: |actual - expected| <= absolute + relative * |expected|.
struct SuiteTolerance {
  double relative = 1e-3;
  double absolute = 1e-7;
};

struct CheckOptions {
  std::string device = "cpu";
  int threads = 0;
  bool round_trip = false;  // write the model and read it back before running it
};

// All cases at or below the path, sorted. Throws Error(not_found) when there is none.
std::vector<std::filesystem::path> find_cases(const std::filesystem::path& path);

// Never throws for a fault of the model: every Error becomes an outcome.
CaseResult run_case(const std::filesystem::path& path, const CheckOptions& options);

// Empty when the values agree: kind, element type and shape exactly, integers, bools and strings exactly, floats within
// the tolerance. Else the first difference, in words.
std::string difference(const Value& actual, const Value& expected, SuiteTolerance tolerance);

}  // namespace tessera::conformance
