#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "target.h"

namespace tessera::fuzz {
namespace {

constexpr std::array<std::string_view, 1> kModel{"ModelProto"};
// In the order that value_proto.cpp reads them.
constexpr std::array<std::string_view, 4> kValues{"TensorProto", "SequenceProto", "OptionalProto", "MapProto"};

constexpr std::array kTargets{
    Target{"onnx_reader", onnx_reader, kModel},
    Target{"text", text, {}},
    Target{"model_run", model_run, kModel},
    Target{"npy", npy, {}},
    Target{"image", image, {}},
    Target{"value_proto", value_proto, kValues},
    Target{"package", package, {}},
    Target{"tokenizer", tokenizer, {}},
    Target{"gguf", gguf, {}},
    Target{"safetensors", safetensors, {}},
    Target{"chat_template", chat_template, {}},
    Target{"symbols", symbols, {}},
};

}  // namespace

const std::vector<Target>& all_targets() {
  static const std::vector<Target> targets = [] {
    std::vector<Target> all(kTargets.begin(), kTargets.end());
    for (const std::span<const Target> more : {serve_targets(), protect_targets(), secret_shared_targets()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return targets;
}

const Target* find_target(std::string_view name) {
  const auto found = std::ranges::find(all_targets(), name, &Target::name);
  return found != all_targets().end() ? &*found : nullptr;
}

void finding(const std::string& what) {
  std::fprintf(stderr, "finding: %s\n", what.c_str());
  std::abort();
}

Tagged split_tag(std::span<const std::byte> input) {
  if (input.empty()) return {};
  return {static_cast<std::size_t>(input[0]), input.subspan(1)};
}

}  // namespace tessera::fuzz
