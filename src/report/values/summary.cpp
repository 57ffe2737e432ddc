#include "report/values/summary.h"

#include <algorithm>
#include <cmath>

#include "backends/host/numeric.h"
#include "report/values/json_text.h"

namespace tessera::report {
namespace {

constexpr std::size_t kShown = 6;

std::string first_strings(const Tensor& tensor) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(kShown, static_cast<std::size_t>(tensor.elements())); ++i)
    text += (i ? ", " : "") + fmt::format("\"{}\"", base::printable(base::shown(tensor.data<std::string>()[i])));
  return text;
}

void add_statistics(const std::vector<double>& values, ValueSummary& summary) {
  double sum = 0;
  std::int64_t finite = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      ++summary.not_finite;
      continue;
    }
    if (finite == 0 || values[i] < summary.minimum) summary.minimum = values[i];
    if (finite == 0 || values[i] > summary.maximum) {
      summary.maximum = values[i];
      summary.arg_maximum = static_cast<std::int64_t>(i);
    }
    sum += values[i];
    ++finite;
  }
  summary.has_statistics = finite > 0;
  summary.mean = finite > 0 ? sum / static_cast<double>(finite) : 0;
  for (std::size_t i = 0; i < std::min(kShown, values.size()); ++i)
    summary.first_values += fmt::format("{}{:.6g}", i ? ", " : "", values[i]);
}

// A short description of an element of a sequence or map.
std::string brief(const Value& value) {
  if (!value.has_value()) return "nothing";
  if (value.is_tensor()) {
    const Tensor& tensor = value.tensor();
    if (tensor.elements() != 1 || is_complex(tensor.dtype()))
      return std::string(name_of(tensor.dtype())) + to_string(tensor.shape());
    return tensor.dtype() == DType::string ? first_strings(tensor)
                                           : fmt::format("{:.6g}", backends::host::read<double>(tensor)[0]);
  }
  const bool is_map = value.kind() == Value::Kind::map;
  const std::vector<Value>& elements = value.elements();
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, elements.size()); ++i) {
    text += i ? ", " : "";
    if (is_map)
      text += (value.keys().dtype() == DType::string ? value.keys().values<std::string>()[i]
                                                     : std::to_string(value.keys().values<std::int64_t>()[i])) +
              ": ";
    text += brief(elements[i]);
  }
  if (elements.size() > kShown) text += ", …";
  return is_map ? "{" + text + "}" : "[" + text + "]";
}

}  // namespace

ValueSummary summarise(const Value& value) {
  ValueSummary summary;
  if (!value.is_tensor()) {
    summary.type = !value.has_value() ? "nothing"
                                      : fmt::format("{} of {}", value.kind() == Value::Kind::map ? "map" : "sequence",
                                                    value.elements().size());
    if (value.has_value()) summary.first_values = brief(value);
    return summary;
  }
  const Tensor& tensor = value.tensor();
  summary.is_tensor = true;
  summary.type = name_of(tensor.dtype());
  summary.shape = tensor.shape();
  summary.has_data = tensor.has_data() || tensor.elements() == 0;
  if (!summary.has_data) return summary;
  if (tensor.dtype() == DType::string) summary.first_values = first_strings(tensor);
  else if (!is_complex(tensor.dtype())) add_statistics(backends::host::read<double>(tensor), summary);
  return summary;
}

std::vector<RankedElement> largest_elements(const Value& value, int most) {
  std::vector<RankedElement> ranked;
  if (most <= 0 || !value.is_tensor() || !value.tensor().has_data() || value.tensor().dtype() == DType::string ||
      is_complex(value.tensor().dtype()))
    return ranked;
  const std::vector<double> values = backends::host::read<double>(value.tensor());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isnan(values[i])) ranked.push_back({static_cast<std::int64_t>(i), values[i]});
  }
  const auto end =
      ranked.begin() + std::min(static_cast<std::ptrdiff_t>(most), static_cast<std::ptrdiff_t>(ranked.size()));
  std::partial_sort(ranked.begin(), end, ranked.end(), [](const RankedElement& a, const RankedElement& b) {
    return a.value != b.value ? a.value > b.value : a.index < b.index;
  });
  ranked.erase(end, ranked.end());
  return ranked;
}

std::string summary_text(const ValueSummary& summary) {
  if (!summary.is_tensor)
    return summary.first_values.empty() ? summary.type : summary.type + "  " + summary.first_values;
  std::string text = summary.type + to_string(summary.shape);
  if (!summary.has_data) return text + "  not computed";
  if (summary.has_statistics) {
    text += fmt::format("  min {:.6g}, max {:.6g} at {}, mean {:.6g}", summary.minimum, summary.maximum,
                        summary.arg_maximum, summary.mean);
  }
  if (summary.not_finite > 0) text += fmt::format(", {} NaN or infinite", summary.not_finite);
  const bool all_shown = element_count(summary.shape) <= static_cast<std::int64_t>(kShown);
  return text + fmt::format("  [{}{}]", summary.first_values, all_shown ? "" : ", …");
}

std::string summary_json(const std::string& name, const ValueSummary& summary) {
  nlohmann::json json{{"name", name}, {"type", summary.type}};
  if (summary.is_tensor) json["shape"] = summary.shape;
  if (summary.has_statistics) {
    json["min"] = summary.minimum;
    json["max"] = summary.maximum;
    json["argmax"] = summary.arg_maximum;
    json["mean"] = summary.mean;
  }
  if (summary.is_tensor && summary.has_data) json["not_finite"] = summary.not_finite;
  return json_text(json);
}

}  // namespace tessera::report
