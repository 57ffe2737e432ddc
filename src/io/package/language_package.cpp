#include "io/package/language_package.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/no_memory.h"
#include "base/numbers/checked.h"
#include "base/text.h"
#include "io/onnx/mapped_file.h"
#include "io/package/byte_stream.h"
#include "io/package/open_package.h"
#include "io/package/piece_list.h"

namespace tessera::io {
namespace {

constexpr std::uint32_t kMostModelTexts = 64, kMostModelWeights = 1 << 18;
constexpr std::size_t kLeastWeightBytes = 32;  // two texts and three numbers

void read_model_texts(ByteReader& in, LanguageContent& content) {
  const std::uint32_t count = in.count(8);
  require(count <= kMostModelTexts, ErrorKind::invalid_model, "the language model has {} texts, at most {} are allowed",
          count, kMostModelTexts);
  for (std::uint32_t i = 0; i < count; ++i) {
    std::string name = in.text();
    const std::span<const std::byte> bytes = in.bytes(in.u32());
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    require(content.texts.emplace(name, text).second, ErrorKind::invalid_model, "the language model has two texts '{}'",
            base::shown(name));
  }
}

LanguageTensor read_model_weight(ByteReader& in, std::span<const std::byte> constants,
                                 const std::shared_ptr<const void>& owner) {
  LanguageTensor tensor;
  tensor.name = in.text();
  const std::string format = in.text();
  const std::optional<base::BlockFormat> known = base::block_format_from_name(format);
  require(known.has_value(), ErrorKind::unsupported, "the weight '{}' is of the format '{}', which is not known",
          base::shown(tensor.name), base::shown(format));
  tensor.format = *known;
  tensor.rows = static_cast<std::int64_t>(in.u64());
  tensor.columns = static_cast<std::int64_t>(in.u64());
  const std::uint64_t offset = in.u64();
  require(tensor.rows >= 0 && tensor.columns >= 0, ErrorKind::invalid_model,
          "a dimension of the weight '{}' is more than 2^63 - 1", base::shown(tensor.name));
  const std::int64_t bytes = base::checked_multiply(tensor.rows, base::row_bytes(tensor.format, tensor.columns));
  require(offset % kDataAlignment == 0 && offset <= constants.size() &&
              static_cast<std::uint64_t>(bytes) <= constants.size() - offset,
          ErrorKind::invalid_model, "the weight '{}' has {} bytes from byte {} on of a section of {}",
          base::shown(tensor.name), bytes, offset, constants.size());
  auto* const data = const_cast<std::byte*>(constants.data() + offset);
  tensor.bytes = Tensor(DType::u8, {bytes}, data, owner);
  return tensor;
}

LanguageContent read_model_content(std::span<const std::byte> section, std::span<const std::byte> constants,
                                   const std::shared_ptr<const void>& owner) {
  ByteReader in(section);
  LanguageContent content;
  const std::uint32_t form = in.u32();
  require(form == static_cast<std::uint32_t>(LanguageForm::gguf) ||
              form == static_cast<std::uint32_t>(LanguageForm::folder),
          ErrorKind::unsupported, "the language model is of form {}, which this Tessera cannot read", form);
  content.form = static_cast<LanguageForm>(form);
  read_model_texts(in, content);
  const std::uint32_t count = in.count(kLeastWeightBytes);
  require(count <= kMostModelWeights, ErrorKind::over_budget,
          "the language model has {} weights, more than the limit of {}", count, kMostModelWeights);
  for (std::uint32_t i = 0; i < count; ++i) content.tensors.push_back(read_model_weight(in, constants, owner));
  require(in.done(), ErrorKind::invalid_model, "the list of weights goes on behind its end");
  std::set<std::string_view> names;
  for (const LanguageTensor& tensor : content.tensors)
    require(names.insert(tensor.name).second, ErrorKind::invalid_model, "the language model has two weights '{}'",
            base::shown(tensor.name));
  return content;
}

}  // namespace

std::string_view LanguageContent::text(std::string_view name) const {
  const auto found = texts.find(name);
  require(found != texts.end(), ErrorKind::invalid_model, "the language model's package has no text '{}'", name);
  return found->second;
}

bool is_language_package(std::span<const std::byte> bytes) noexcept {
  return lists_section(bytes, kLanguage);
}

LanguagePackage read_language_package(const Container& container) {
  for (const Section& section : container.sections()) {
    require(section.codec == Codec::none, ErrorKind::unsupported,
            "section '{}' is coded, which those of language models cannot be", section.name);
    // A decoder's memory may be read only where it was asked for, and passes read constants without asking.
    const bool is_read_later = section.kind == kPacked || (section.kind == kConstants && !container.decoder());
    if (!is_read_later) container.verify(section);
  }
  const std::shared_ptr<const void>& owner = container.owner();
  const std::span<const std::byte> constants = section_bytes(container, kConstants, "constants"),
                                   packed = section_bytes(container, kPacked, "packed weights");
  LanguagePackage package;
  package.content = read_model_content(section_bytes(container, kLanguage, "a language model"), constants, owner);
  auto origin = std::make_shared<PackageOrigin>();
  origin->has_graph = false;
  origin->info = read_package_info(container);
  origin->packings =
      std::make_shared<const StoredPackings>(section_bytes(container, kPackings, "packings"), constants, packed, owner);
  origin->sections = container.sections();
  origin->decoder = container.decoder();
  origin->stream = std::make_shared<WeightStream>(
      read_pieces(section_bytes(container, kPieces, "pieces of weights"), constants, packed), owner,
      container.decoder());
  package.origin = std::move(origin);
  return package;
}

LanguagePackage read_language_package(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                      const ModelKey* key) {
  LanguagePackage package = read_language_package(open_container(bytes, owner, key));
  package.file_bytes = static_cast<std::int64_t>(bytes.size());
  return package;
}

LanguagePackage open_language_package(const std::filesystem::path& path, const ModelKey* key) {
  return base::with_memory_errors([&] {
    try {
      const std::shared_ptr<const MappedFile> file = MappedFile::map(InputFile::open(path));
      return read_language_package(file->bytes(), file, key);
    } catch (Error& error) {
      if (error.context().empty()) error.add_context("file " + path.string());
      throw;
    }
  });
}

}  // namespace tessera::io
