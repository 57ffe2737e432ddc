// Names, defaults and types of attributes.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "io/onnx/upgrade/upgrade_rules.h"

namespace tessera::io {

// Attribute `to` was a name: "FLOAT", "INT64".
void cast_6(Upgrade& upgrade) {
  std::string name = upgrade.take_required<std::string>("to");
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::optional<DType> dtype = dtype_from_name(name);
  require(dtype.has_value(), ErrorKind::invalid_model, "unknown element type '{}'", name.substr(0, 100));
  upgrade.set_default("to", static_cast<std::int64_t>(*dtype));
}

// Attribute axis was 1 when not given.
void concat_4(Upgrade& upgrade) {
  upgrade.set_default("axis", std::int64_t{1});
}

// Modes were renamed.
void grid_sample_20(Upgrade& upgrade) {
  const std::string mode = upgrade.take_or<std::string>("mode", "bilinear");
  upgrade.set_default("mode", mode == "bilinear" ? "linear" : mode == "bicubic" ? "cubic" : mode);
}

// One list of strings, whose positions are the integers, became a list of keys and one of values.
void label_encoder_2(Upgrade& upgrade) {
  auto classes = upgrade.take_or<std::vector<std::string>>("classes_strings", {});
  std::vector<std::int64_t> numbers(classes.size());
  std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
  const bool from_text = upgrade.known_dtype(0) == DType::string;
  upgrade.set_default(from_text ? "keys_strings" : "values_strings", std::move(classes));
  upgrade.set_default(from_text ? "values_int64s" : "keys_int64s", std::move(numbers));
}

// LpPool, GlobalLpPool: attribute p was a float.
void lp_pool_2(Upgrade& upgrade) {
  const float p = upgrade.take_or("p", 2.0f);
  require(p >= 1 && p <= 1000 && std::floor(p) == p, ErrorKind::unsupported, "p = {}; only integers are supported", p);
  upgrade.set_default("p", static_cast<std::int64_t>(p));
}

// RNN, GRU, LSTM: outputs that nobody uses are not asked for, which made output_sequence superfluous.
void recurrent_7(Upgrade& upgrade) {
  upgrade.take<std::int64_t>("output_sequence");
}

// There was only the other mode than today's default.
void roi_align_16(Upgrade& upgrade) {
  upgrade.set_default("coordinate_transformation_mode", std::string("output_half_pixel"));
}

// Scatter was renamed.
void scatter_11(Upgrade& upgrade) {
  upgrade.node.op = "ScatterElements";
}

// The defaults had fewer digits.
void selu_6(Upgrade& upgrade) {
  upgrade.set_default("alpha", 1.6732f);
  upgrade.set_default("gamma", 1.0507f);
}

}  // namespace tessera::io
