#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/error.h"
#include "base/text.h"
#include "generate/language_source.h"
#include "io/safetensors/safetensors_file.h"

namespace tessera::generate {
namespace {

using nlohmann::json;

// --- config.json under the keys of GGUF files

json read_config(const FolderTexts& texts) {
  json config = texts.object("config.json");
  // A model of images and texts has the configuration of its text part inside.
  if (config.contains("text_config") && config["text_config"].is_object()) config = json(config["text_config"]);
  return config;
}

const json* find(const json& object, std::string_view key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && !found->is_null() ? &*found : nullptr;
}

double number_in(const json& value, std::string_view key) {
  require(value.is_number(), ErrorKind::invalid_model, "'{}' of config.json is {}, expected a number", key,
          base::shown(value.dump()));
  return value.get<double>();
}

// A size of the configuration that lists are made of.
std::int64_t size_in(double value, std::string_view key, std::int64_t most) {
  require(value >= 0 && value <= static_cast<double>(most), ErrorKind::invalid_model,
          "'{}' of config.json is {}, expected 0 to {}", key, value, most);
  return static_cast<std::int64_t>(value);
}

class FolderConfig final : public models::ConfigValues {
 public:
  explicit FolderConfig(json config) : config_(std::move(config)) {
    const json* type = find(config_, "model_type");
    require(type != nullptr && type->is_string(), ErrorKind::invalid_model, "config.json has no text 'model_type'");
    architecture_ = type->get<std::string>();
    if (architecture_ == "gemma3_text") architecture_ = "gemma3";
    check_activation();
    check_attention();
    read_sizes();
    read_windows();
    read_rotary();
  }

  std::string architecture() const override { return architecture_; }
  std::optional<std::int64_t> integer(std::string_view key) const override {
    const std::optional<double> value = number(key);
    if (!value) return std::nullopt;
    require(*value == std::floor(*value) && std::abs(*value) < 0x1p53, ErrorKind::invalid_model,
            "'{}' of config.json is {}, expected a whole number", key, *value);
    return static_cast<std::int64_t>(*value);
  }
  std::optional<double> number(std::string_view key) const override {
    const auto found = numbers_.find(key);
    return found != numbers_.end() ? std::optional(found->second) : std::nullopt;
  }
  std::optional<std::string> text(std::string_view key) const override {
    return key == "rope.scaling.type" ? std::optional(scaling_) : std::nullopt;
  }
  std::vector<std::int64_t> integers(std::string_view key) const override {
    if (key == "attention.layer_windows") return windows_;
    const std::optional<std::int64_t> value = integer(key);
    return value ? std::vector{*value} : std::vector<std::int64_t>();
  }
  bool turns_neighbours() const override { return false; }

  bool is_tied() const {
    const json* tied = find(config_, "tie_word_embeddings");
    return tied == nullptr ? architecture_.starts_with("gemma") : tied->is_boolean() && tied->get<bool>();
  }
  // Divisors of the frequencies, by the names of GGUF files.
  const std::map<std::string, std::vector<float>, std::less<>>& divisors() const { return divisors_; }

 private:
  void take(std::string_view key, std::string_view as, const json& from) {
    if (const json* value = find(from, key)) numbers_.insert_or_assign(std::string(as), number_in(*value, key));
  }

  void check_activation() const {
    const bool is_gemma = architecture_.starts_with("gemma");
    // Gemma's files may state two; the older one, "hidden_act", says nothing.
    const json* activation = find(config_, is_gemma ? "hidden_activation" : "hidden_act");
    if (activation == nullptr) return;
    const std::string name = activation->is_string() ? activation->get<std::string>() : activation->dump();
    const bool fits = is_gemma ? name == "gelu_pytorch_tanh" || name == "gelu_new" : name == "silu";
    require(fits, ErrorKind::unsupported, "the activation '{}' of a model of the architecture '{}'", base::shown(name),
            base::shown(architecture_));
  }

  void check_attention() const {
    const json* both_ways = find(config_, "use_bidirectional_attention");
    require(both_ways == nullptr || *both_ways == false, ErrorKind::unsupported,
            "attention to later tokens ('use_bidirectional_attention' in config.json)");
  }

  // The keys that files of Gemma may leave out, with the values that transformers takes then.
  void take_defaults_of_gemma() {
    const bool is_third = architecture_ == "gemma3";
    for (const auto& [as, value] : {std::pair{"context_length", is_third ? 131072.0 : 8192.0},
                                    {"attention.head_count", 8.0},
                                    {"attention.head_count_kv", 4.0},
                                    {"attention.key_length", 256.0},
                                    {"attention.query_pre_attn_scalar", 256.0},
                                    {"rope.freq_base", is_third ? 1e6 : 1e4}})
      numbers_.insert_or_assign(as, value);
  }

  // The keys that every configuration has, by the names that its owner knows them by; and the epsilon that transformers
  // takes where the file has none.
  void check_keys() {
    const bool is_gemma = architecture_.starts_with("gemma");
    for (const char* key : {"num_hidden_layers", "hidden_size", "intermediate_size"})
      require(find(config_, key) != nullptr, ErrorKind::invalid_model, "config.json lacks '{}'", key);
    for (const char* key : {"max_position_embeddings", "num_attention_heads"})
      require(is_gemma || find(config_, key) != nullptr, ErrorKind::invalid_model, "config.json lacks '{}'", key);
    if (find(config_, "rms_norm_eps") == nullptr)
      numbers_.insert_or_assign("attention.layer_norm_rms_epsilon", architecture_ == "phi3" ? 1e-5 : 1e-6);
  }

  void read_sizes() {
    check_keys();
    if (architecture_.starts_with("gemma")) take_defaults_of_gemma();
    for (const auto& [key, as] : {std::pair{"num_hidden_layers", "block_count"},
                                  {"max_position_embeddings", "context_length"},
                                  {"vocab_size", "stated_vocabulary"},
                                  {"hidden_size", "embedding_length"},
                                  {"intermediate_size", "feed_forward_length"},
                                  {"num_attention_heads", "attention.head_count"},
                                  {"num_key_value_heads", "attention.head_count_kv"},
                                  {"head_dim", "attention.key_length"},
                                  {"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
                                  {"attn_logit_softcapping", "attn_logit_softcapping"},
                                  {"final_logit_softcapping", "final_logit_softcapping"},
                                  {"query_pre_attn_scalar", "attention.query_pre_attn_scalar"},
                                  {"sliding_window_pattern", "attention.sliding_window_pattern"}})
      take(key, as, config_);
    // Gemma's caps may be switched off by null, which is no missing key.
    for (const char* cap : {"attn_logit_softcapping", "final_logit_softcapping"}) {
      if (config_.contains(cap) && config_[cap].is_null()) numbers_.insert_or_assign(cap, 0.0);
    }
  }

  void read_windows() {
    const json* window = find(config_, "sliding_window");
    const json* uses = find(config_, "use_sliding_window");
    if (window == nullptr || (uses != nullptr && uses->is_boolean() && !uses->get<bool>())) return;
    const std::int64_t positions =
        size_in(number_in(*window, "sliding_window"), "sliding_window", std::int64_t{1} << 52);
    numbers_.insert_or_assign("attention.sliding_window", static_cast<double>(positions));
    const std::int64_t layers = size_in(number("block_count").value_or(0), "num_hidden_layers", models::kMostLayers);
    if (const json* types = find(config_, "layer_types"); types != nullptr && types->is_array()) {
      for (const json& type : *types) {
        const bool slides = type == "sliding_attention";
        require(slides || type == "full_attention", ErrorKind::unsupported, "layers of the type {}",
                base::shown(type.dump()));
        windows_.push_back(slides ? positions : 0);
      }
    } else if (uses != nullptr) {  // Qwen 2: the layers from max_window_layers on
      const json* first = find(config_, "max_window_layers");
      const double from = first != nullptr ? number_in(*first, "max_window_layers") : 0;
      for (std::int64_t i = 0; i < layers; ++i) windows_.push_back(static_cast<double>(i) >= from ? positions : 0);
    }
  }

  void read_rotary() {
    const double heads = number("attention.head_count").value_or(1), hidden = number("embedding_length").value_or(0);
    const double size = number("attention.key_length").value_or(std::floor(hidden / heads));
    const json* partial = find(config_, "partial_rotary_factor");
    const json* both = find(config_, "rope_parameters");
    // Newer files keep base and scaling together, for some models by the type of the layers.
    const json* global = both != nullptr ? find(*both, "full_attention") : nullptr;
    const json* local = both != nullptr ? find(*both, "sliding_attention") : nullptr;
    const json& base = both == nullptr ? config_ : global != nullptr ? *global : *both;
    take("rope_theta", "rope.freq_base", base);
    take("rope_local_base_freq", "rope.local.freq_base", config_);
    if (local != nullptr) take("rope_theta", "rope.local.freq_base", *local);
    if (const json* inside = find(base, "partial_rotary_factor")) partial = inside;
    if (partial != nullptr)
      numbers_.insert_or_assign("rope.dimension_count",
                                std::floor(size * number_in(*partial, "partial_rotary_factor")));
    const json* scaling = both != nullptr ? &base : find(config_, "rope_scaling");
    if (scaling != nullptr)
      read_scaling(*scaling, size_in(number("rope.dimension_count").value_or(size), "head_dim", models::kMostSize));
  }

  void read_scaling(const json& scaling, std::int64_t rotated) {
    const json* type = find(scaling, "rope_type");
    if (type == nullptr) type = find(scaling, "type");
    scaling_ = type != nullptr && type->is_string() ? type->get<std::string>() : "none";
    if (scaling_ == "default") scaling_ = "none";
    if (scaling_ == "su") scaling_ = "longrope";
    take("factor", "rope.scaling.factor", scaling);
    take("original_max_position_embeddings", "rope.scaling.original_context_length", config_);
    take("original_max_position_embeddings", "rope.scaling.original_context_length", scaling);
    take("attention_factor", "rope.scaling.attn_factor", scaling);
    if (scaling_ == "llama3") divisors_["rope_freqs.weight"] = llama3_divisors(scaling, rotated);
    if (scaling_ == "longrope") {
      for (const char* length : {"long", "short"}) {
        const json* factors = find(scaling, fmt::format("{}_factor", length));
        require(factors != nullptr && factors->is_array(), ErrorKind::invalid_model,
                "the scaling of positions in config.json has no list '{}_factor'", length);
        std::vector<float>& to = divisors_[fmt::format("rope_factors_{}.weight", length)];
        for (const json& factor : *factors) to.push_back(static_cast<float>(number_in(factor, "long_factor")));
      }
    }
  }

  // Frequencies of long wavelengths are divided by the factor, those between two wavelengths in part (Llama 3.1).
  std::vector<float> llama3_divisors(const json& scaling, std::int64_t rotated) const {
    const auto value = [&](const char* key) {
      const json* found = find(scaling, key);
      require(found != nullptr, ErrorKind::invalid_model, "the scaling 'llama3' in config.json has no '{}'", key);
      return number_in(*found, key);
    };
    const double factor = value("factor"), low = value("low_freq_factor"), high = value("high_freq_factor"),
                 old = value("original_max_position_embeddings"), base = number("rope.freq_base").value_or(10000);
    std::vector<float> divisors;
    for (std::int64_t i = 0; i < rotated / 2; ++i) {
      const double frequency = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(rotated));
      const double wavelength = 2 * std::numbers::pi / frequency;
      double scaled = frequency;
      if (wavelength > old / low) scaled = frequency / factor;
      else if (wavelength >= old / high) {
        const double smooth = (old / wavelength - low) / (high - low);
        scaled = (1 - smooth) * frequency / factor + smooth * frequency;
      }
      divisors.push_back(static_cast<float>(frequency / scaled));
    }
    return divisors;
  }

  const json config_;
  std::string architecture_, scaling_ = "none";
  std::map<std::string, double, std::less<>> numbers_;
  std::vector<std::int64_t> windows_;
  std::map<std::string, std::vector<float>, std::less<>> divisors_;
};

// --- safetensors files under the names of GGUF files

std::optional<base::BlockFormat> format_of(DType type) {
  if (type == DType::f32) return base::BlockFormat::f32;
  if (type == DType::f16) return base::BlockFormat::f16;
  if (type == DType::bf16) return base::BlockFormat::bf16;
  return std::nullopt;
}

models::LanguageWeight weight_of(std::vector<float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  Tensor tensor(DType::u8, {count * 4});
  std::memcpy(tensor.mutable_raw(), values.data(), static_cast<std::size_t>(count) * 4);
  return {std::move(tensor), base::BlockFormat::f32, 1, count};
}

class FolderWeights final : public models::WeightSource {
 public:
  FolderWeights(io::SafetensorsFile files, const FolderConfig& config)
      : files_(std::move(files)),
        divisors_(config.divisors()),
        is_gemma_(config.architecture().starts_with("gemma")),
        is_tied_(config.is_tied()) {}

  std::optional<models::LanguageWeight> find(std::string_view name) const override {
    if (const auto divisors = divisors_.find(name); divisors != divisors_.end()) return weight_of(divisors->second);
    if (is_tied_ && name.starts_with("output.")) return std::nullopt;
    const std::string own = own_name(name);
    const io::SafetensorsTensor* const tensor = own.empty() ? nullptr : files_.find(own);
    if (tensor == nullptr) return std::nullopt;
    const std::optional<base::BlockFormat> format = format_of(tensor->dtype);
    require(format.has_value(), ErrorKind::unsupported, "the weight '{}' is {}, expected f32, f16 or bf16", own,
            name_of(tensor->dtype));
    require(tensor->shape.size() == 1 || tensor->shape.size() == 2, ErrorKind::invalid_model,
            "the weight '{}' has {} dimensions, expected 1 or 2", own, tensor->shape.size());
    const std::int64_t rows = tensor->shape.size() == 2 ? tensor->shape[0] : 1;
    auto* const bytes = const_cast<std::byte*>(tensor->bytes.data());
    models::LanguageWeight weight{
        Tensor(DType::u8, {static_cast<std::int64_t>(tensor->bytes.size())}, bytes, tensor->owner), *format, rows,
        tensor->shape.back()};
    // Gemma's norms multiply by 1 + weight.
    return is_gemma_ && name.ends_with("norm.weight") ? with_one(weight) : weight;
  }

 private:
  static models::LanguageWeight with_one(const models::LanguageWeight& weight) {
    std::vector<float> values(static_cast<std::size_t>(weight.columns));
    base::dequantize(weight.format, std::as_bytes(weight.tensor.values<std::uint8_t>()), values);
    for (float& value : values) value += 1;
    return weight_of(std::move(values));
  }

  // The name of Hugging Face's files; empty where they have no such weight.
  std::string own_name(std::string_view name) const {
    for (const auto& [ours, theirs] :
         {std::pair{"token_embd.", "model.embed_tokens."}, {"output_norm.", "model.norm."}, {"output.", "lm_head."}}) {
      if (name.starts_with(ours)) return present(theirs + std::string(name.substr(std::string_view(ours).size())));
    }
    if (!name.starts_with("blk.")) return "";
    const std::string_view rest = name.substr(4);
    const std::size_t dot = rest.find('.'), last = rest.rfind('.');
    if (dot == std::string_view::npos || last <= dot) return "";
    const std::string_view part = rest.substr(dot + 1, last - dot - 1);
    for (const auto& [ours, theirs] :
         {std::pair{"attn_norm", "input_layernorm"},
          {"attn_q", "self_attn.q_proj"},
          {"attn_k", "self_attn.k_proj"},
          {"attn_v", "self_attn.v_proj"},
          {"attn_qkv", "self_attn.qkv_proj"},
          {"attn_output", "self_attn.o_proj"},
          {"attn_q_norm", "self_attn.q_norm"},
          {"attn_k_norm", "self_attn.k_norm"},
          {"ffn_gate", "mlp.gate_proj"},
          {"ffn_up", "mlp.up_proj"},
          {"ffn_down", "mlp.down_proj"},
          {"ffn_norm", is_gemma_ ? "pre_feedforward_layernorm" : "post_attention_layernorm"},
          {"post_attention_norm", is_gemma_ ? "post_attention_layernorm" : ""},
          {"post_ffw_norm", is_gemma_ ? "post_feedforward_layernorm" : ""}}) {
      if (part != ours || *theirs == '\0') continue;
      const auto named = [&](std::string_view as) {
        return present(fmt::format("model.layers.{}.{}{}", rest.substr(0, dot), as, rest.substr(last)));
      };
      // Phi-3 has the gate and the other half in one matrix.
      const std::string own = named(theirs);
      return part == "ffn_up" && files_.find(own) == nullptr ? named("mlp.gate_up_proj") : own;
    }
    return "";
  }
  // The name as it is in the files, where a model of images and texts has another beginning.
  std::string present(std::string name) const {
    if (files_.find(name) != nullptr) return name;
    const std::string inside = "language_model." + name;
    return files_.find(inside) != nullptr ? inside : name;
  }

  const io::SafetensorsFile files_;
  const std::map<std::string, std::vector<float>, std::less<>> divisors_;
  const bool is_gemma_, is_tied_;
};

}  // namespace

std::unique_ptr<const models::ConfigValues> values_of_folder(const FolderTexts& texts) {
  return std::make_unique<FolderConfig>(read_config(texts));
}

LanguageSource source_of_folder(const std::filesystem::path& folder) {
  io::SafetensorsFile files = io::SafetensorsFile::open(folder);
  auto values = std::make_unique<FolderConfig>(read_config(FolderTexts(files.folder())));
  auto weights = std::make_unique<FolderWeights>(std::move(files), *values);
  return {std::move(values), std::move(weights), nullptr};
}

}  // namespace tessera::generate
