// Writes packages; package.cpp reads them.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/error.h"
#include "io/onnx/exporter.h"
#include "io/onnx/tensor_reader.h"
#include "io/package.h"
#include "io/package/byte_stream.h"
#include "io/package/coded_weights.h"
#include "io/package/language_package.h"
#include "io/package/piece_list.h"
#include "io/package/section_kinds.h"

namespace tessera::io {
namespace {

// Smaller constants stay in the graph's own section.
constexpr std::int64_t kLeastOutside = 1024;
// Data of at least this size begin at a page, so that reading one constant reads nothing of another.
constexpr std::size_t kPageSized = std::size_t{64} << 10;

std::uint64_t alignment_for(std::size_t bytes) {
  return bytes >= kPageSized ? kSectionAlignment : kDataAlignment;
}

void write_texts(ByteWriter& out, const std::vector<std::string>& texts) {
  out.u32(static_cast<std::uint32_t>(texts.size()));
  for (const std::string& text : texts) out.text(text);
}

std::vector<std::byte> write_info(const PackageInfo& info) {
  ByteWriter out;
  for (const std::string* text : {&info.tessera_version, &info.device, &info.instruction_set, &info.precision})
    out.text(*text);
  out.u32(info.ready ? 1 : 0);
  write_texts(out, info.passes);
  write_texts(out, info.without);
  return out.take();
}

std::vector<std::byte> write_metadata(const std::map<std::string, std::string>& metadata) {
  ByteWriter out;
  out.u32(static_cast<std::uint32_t>(metadata.size()));
  for (const auto& [key, text] : metadata) {
    out.text(key);
    out.text(text);
  }
  return out.take();
}

// The description of a package without the passes, which tell of its operators.
PackageInfo hidden(PackageInfo info) {
  info.passes.clear();
  return info;
}

// Without the types of computed values, which inference finds again for whoever has the symbols.
ir::Graph without_types(ir::Graph graph) {
  for (const ir::NodeId id : graph.order()) {
    if (!ir::subgraphs_of(graph.node(id)).empty()) continue;
    for (const ir::ValueId output : graph.node(id).outputs) {
      if (output.valid() && !graph.is_output(output)) graph.value(output).type = {};
    }
  }
  return graph;
}

// The constants section of a package, and the graph that refers to it.
class GraphWriter {
 public:
  GraphWriter(SectionContent& constants, const std::vector<Packing>& packings) : constants_(constants) {
    for (const Packing& packing : packings) packed_.insert(packing.weights.raw());
  }

  std::vector<std::byte> write(const ir::Graph& graph) {
    const FileForm form = newest_form(graph);
    return serialise(
        Exporter(form, [this](const Tensor& tensor, tessera_onnx::TensorProto& proto) { store(tensor, proto); }).run());
  }

  // Puts a tensor's data into the section, where they are not in it yet, and returns their offset.
  std::uint64_t append(const Tensor& tensor) {
    const std::uint64_t* known = offset_of(tensor);
    const std::uint64_t offset =
        known != nullptr ? *known
                         : constants_.append(bytes_of(tensor), alignment_for(static_cast<std::size_t>(tensor.bytes())));
    if (known == nullptr) pieces_.push_back({offset, bytes_of(tensor), shared_bytes(tensor.dtype())});
    offsets_.insert_or_assign(tensor.raw(), Place{offset, tensor.bytes()});
    return offset;
  }

  // The pieces of the section, in order.
  const std::vector<WeightPiece>& pieces() const { return pieces_; }
  // Puts the constants that the first run reads in front. Small ones stay in the graph.
  void place(const std::vector<FirstUse>& uses) {
    for (const FirstUse& each : uses) {
      if (each.packing == nullptr && lies_outside(each.constant)) append(each.constant);
    }
  }

  const auto& places() const { return offsets_; }

  // The offset of a tensor's data in the section; null if they are not in it.
  const std::uint64_t* offset_of(const Tensor& tensor) const {
    const auto found = offsets_.find(tensor.raw());
    return found != offsets_.end() && found->second.bytes == tensor.bytes() ? &found->second.offset : nullptr;
  }

 private:
  struct Place {
    std::uint64_t offset;
    std::int64_t bytes;
  };

  bool lies_outside(const Tensor& tensor) const {
    return tensor.dtype() != DType::string && tensor.bytes() > 0 &&
           (tensor.bytes() >= kLeastOutside || packed_.contains(tensor.raw()));
  }

  void store(const Tensor& tensor, tessera_onnx::TensorProto& proto) {
    if (!lies_outside(tensor)) return store_inside(tensor, proto);
    refer_outside(proto, std::string(kPackageConstants), static_cast<std::int64_t>(append(tensor)), tensor.bytes());
  }

  // Bytes per element, for elements that may share values; else 0.
  static int shared_bytes(DType type) {
    if (type == DType::f32) return 4;
    return type == DType::i8 || type == DType::u8 ? 1 : 0;
  }

  SectionContent& constants_;
  std::vector<WeightPiece> pieces_;
  std::set<const void*> packed_;
  std::map<const void*, Place> offsets_;
};

// The packed section of a package, and the list of its contents.
class PackingWriter {
 public:
  PackingWriter(const std::vector<Packing>& packings, const GraphWriter& graph, SectionContent& packed)
      : packed_(packed) {
    for (const Packing& packing : packings) {
      if (const std::uint64_t* offset = graph.offset_of(packing.weights)) known_.emplace_back(*offset, &packing);
    }
    // Sorted, so that equal models give equal files.
    std::ranges::sort(known_, [](const auto& a, const auto& b) {
      return std::tie(a.first, a.second->name) < std::tie(b.first, b.second->name);
    });
  }
  // Names are written as `hidden_name` makes them.
  void hide_names(std::uint64_t salt) { salt_ = salt; }

  std::vector<std::byte> write(const std::vector<FirstUse>& uses, WrittenPackage& written) {
    for (const FirstUse& use : uses) {
      const auto found = std::ranges::find_if(
          known_, [&](const auto& each) { return use.packing != nullptr && each.second->bytes.data() == use.packing; });
      if (found != known_.end()) append(*found->second);
    }
    ByteWriter out;
    out.u32(static_cast<std::uint32_t>(known_.size()));
    for (const auto& [constant, packing] : known_) {
      out.u64(constant);
      out.text(salt_ ? hidden_name(packing->name, *salt_) : packing->name);
      out.u64(append(*packing));
      out.u64(packing->bytes.size());
      ++written.packings;
      written.packed_bytes += static_cast<std::int64_t>(packing->bytes.size());
    }
    return out.take();
  }

  // Offset and bytes by the begin of each packing.
  const auto& places() const { return places_; }

 private:
  std::uint64_t append(const Packing& packing) {
    const auto found = places_.find(packing.bytes.data());
    if (found != places_.end() && !packing.bytes.empty()) return found->second.first;
    const std::uint64_t offset = packed_.append(packing.bytes, alignment_for(packing.bytes.size()));
    places_.emplace(packing.bytes.data(), std::pair(offset, packing.bytes));
    return offset;
  }

  SectionContent& packed_;
  std::vector<std::pair<std::uint64_t, const Packing*>> known_;  // with the offset of the constant
  std::map<const std::byte*, std::pair<std::uint64_t, std::span<const std::byte>>> places_;
  std::optional<std::uint64_t> salt_;
};

// Every constant and packing of the two sections: those of the first run in the order of use, then the rest.
std::vector<std::byte> write_pieces(const GraphWriter& graph, const PackingWriter& packings,
                                    const std::vector<FirstUse>& uses) {
  PieceListWriter pieces;
  for (const FirstUse& each : uses) {
    if (each.packing == nullptr) {
      if (const std::uint64_t* offset = graph.offset_of(each.constant))
        pieces.add(false, *offset, bytes_of(each.constant), each.use);
    } else if (const auto found = packings.places().find(each.packing); found != packings.places().end()) {
      pieces.add(true, found->second.first, found->second.second, each.use);
    }
  }
  std::map<std::uint64_t, std::span<const std::byte>> constants;
  for (const auto& [data, place] : graph.places())
    constants.emplace(place.offset,
                      std::span(static_cast<const std::byte*>(data), static_cast<std::size_t>(place.bytes)));
  for (const auto& [offset, bytes] : constants) pieces.add(false, offset, bytes, PieceUse::none);
  std::map<std::uint64_t, std::span<const std::byte>> packed;
  for (const auto& [data, place] : packings.places()) packed.emplace(place.first, place.second);
  for (const auto& [offset, bytes] : packed) pieces.add(true, offset, bytes, PieceUse::none);
  return pieces.take();
}

// The section of a language model; its weights go into that of the constants.
std::vector<std::byte> write_language(const LanguageContent& content, GraphWriter& constants) {
  ByteWriter out;
  out.u32(static_cast<std::uint32_t>(content.form));
  out.u32(static_cast<std::uint32_t>(content.texts.size()));
  for (const auto& [name, text] : content.texts) {
    out.text(name);
    out.text(text);
  }
  out.u32(static_cast<std::uint32_t>(content.tensors.size()));
  for (const LanguageTensor& tensor : content.tensors) {
    out.text(tensor.name);
    out.text(base::layout_of(tensor.format).name);
    out.u64(static_cast<std::uint64_t>(tensor.rows));
    out.u64(static_cast<std::uint64_t>(tensor.columns));
    out.u64(tensor.bytes.bytes() > 0 ? constants.append(tensor.bytes) : 0);
  }
  return out.take();
}

}  // namespace

void refuse_protected(const ir::Graph& graph, std::string_view what) {
  require(
      !graph.metadata.contains(std::string(kProtectedMark)), ErrorKind::invalid_argument,
      "the model comes from a protected file, and {} would give it away; write a .tsr with 'tessera optimize', which "
      "is protected for the same keys, or begin with the original model",
      what);
}

void refuse_obfuscated(const ir::Graph& graph, std::string_view what) {
  require(!graph.metadata.contains(std::string(kObfuscatedMark)), ErrorKind::invalid_argument,
          "the model is obfuscated, and {} has no form for its symbols; write a .tsr, or begin with the original model",
          what);
}

WrittenPackage write_package(const std::filesystem::path& path, const ir::Graph& graph, const PackageInfo& info,
                             const std::vector<Packing>& packings, bool coded, const std::vector<FirstUse>& first_uses,
                             const SectionEncoder* encoder) {
  if (encoder == nullptr) refuse_protected(graph, "an unprotected package");
  try {
    SectionContent constants("constants", kConstants), packed("packed", kPacked);
    GraphWriter writer(constants, packings);
    WrittenPackage written;
    const auto mark = graph.metadata.find(std::string(kObfuscatedMark));
    const std::optional<std::uint64_t> salt =
        mark != graph.metadata.end() ? std::optional(salt_of_obfuscated(mark->second)) : std::nullopt;
    writer.place(first_uses);
    const std::vector<std::byte> graph_bytes = writer.write(salt ? without_types(graph) : graph),
                                 info_bytes = write_info(salt ? hidden(info) : info),
                                 metadata_bytes = write_metadata(graph.metadata);
    PackingWriter packing_writer(packings, writer, packed);
    if (salt) packing_writer.hide_names(*salt);
    const std::vector<std::byte> packings_bytes = packing_writer.write(first_uses, written),
                                 pieces_bytes = write_pieces(writer, packing_writer, first_uses);
    std::vector<SectionContent> sections;
    const auto add = [&sections](std::string name, SectionKind kind, const std::vector<std::byte>& bytes) {
      sections.emplace_back(std::move(name), kind).append(bytes);
    };
    add("info", kInfo, info_bytes);
    add("graph", kGraph, graph_bytes);
    add("packings", kPackings, packings_bytes);
    add("metadata", kMetadata, metadata_bytes);
    if (!coded) add("pieces", kPieces, pieces_bytes);  // codes are checked and decoded when the package is opened
    std::vector<std::byte> coded_bytes;
    if (coded) {
      coded_bytes = encode_weights(writer.pieces());
      sections.emplace_back("constants", kConstants, Codec::weights, constants.bytes()).append(coded_bytes);
    } else {
      sections.push_back(std::move(constants));
    }
    sections.push_back(std::move(packed));
    written.file_bytes = write_container(path, sections, encoder);
    return written;
  } catch (Error& error) {
    error.add_context("file " + path.string());
    throw;
  }
}

WrittenPackage write_language_package(const std::filesystem::path& path, const LanguageContent& content,
                                      const PackageInfo& info, const std::vector<Packing>& packings,
                                      const SectionEncoder* encoder) {
  try {
    SectionContent constants("constants", kConstants), packed("packed", kPacked);
    GraphWriter writer(constants, packings);
    WrittenPackage written;
    const std::vector<std::byte> info_bytes = write_info(info), language_bytes = write_language(content, writer);
    PackingWriter packing_writer(packings, writer, packed);
    const std::vector<std::byte> packings_bytes = packing_writer.write({}, written),
                                 pieces_bytes = write_pieces(writer, packing_writer, {});
    std::vector<SectionContent> sections;
    sections.emplace_back("info", kInfo).append(info_bytes);
    sections.emplace_back("language", kLanguage).append(language_bytes);
    sections.emplace_back("packings", kPackings).append(packings_bytes);
    sections.emplace_back("pieces", kPieces).append(pieces_bytes);
    sections.push_back(std::move(constants));
    sections.push_back(std::move(packed));
    written.file_bytes = write_container(path, sections, encoder);
    return written;
  } catch (Error& error) {
    error.add_context("file " + path.string());
    throw;
  }
}

}  // namespace tessera::io
