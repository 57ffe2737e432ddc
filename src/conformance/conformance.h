// Runs ONNX backend test cases: a model, inputs, and the correct outputs.
// The layout and tolerances are those of onnx/backend/test (onnx 1.22). A case is a folder with model.onnx and folders
// test_data_set_* of input_*.pb and output_*.pb, or a file NAME.onnx beside NAME_output_*.pb, whose inputs are a fixed
// ramp.
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
  std::string reason;  // set unless the case passed
  // Whether only values differ (element types and shapes agree), and the model draws random numbers that ONNX does not
  // specify.
  bool random_values = false;
};

// numpy.testing.assert_allclose: |actual - expected| <= absolute + relative * |expected|.
struct SuiteTolerance {
  double relative = 1e-3;
  double absolute = 1e-7;
};

struct CheckOptions {
  std::string device = "cpu";
  int threads = 0;
  bool round_trip = false;  // whether to write the model and read it back before running it
};

// All cases at or below the path, sorted. Throws Error(not_found) if there are none.
std::vector<std::filesystem::path> find_cases(const std::filesystem::path& path);

// Never throws for a faulty model: every Error becomes an outcome.
CaseResult run_case(const std::filesystem::path& path, const CheckOptions& options);

// "" if the values agree: kind, element type and shape exactly, integers, bools and strings exactly, floats within the
// tolerance. Otherwise describes the first difference.
std::string difference(const Value& actual, const Value& expected, SuiteTolerance tolerance);

}  // namespace tessera::conformance
