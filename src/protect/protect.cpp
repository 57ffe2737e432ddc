#include "tessera/protect.h"

#include <sodium.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "base/error.h"
#include "io/onnx/mapped_file.h"
#include "io/output_file.h"
#include "io/package.h"
#include "io/package/section_kinds.h"
#include "protect/file_decoder.h"
#include "protect/file_encoder.h"
#include "protect/key_file.h"
#include "protect/slots.h"

namespace tessera {
namespace {

using protect::Key;
using protect::KeyKind;
using protect::Protection;
using protect::Secret;

void check_source(const KeySource& source) {
  const int given = static_cast<int>(!source.file.empty()) + static_cast<int>(!source.command.empty()) +
                    static_cast<int>(!source.password_file.empty()) + static_cast<int>(source.asks_for_password);
  require(given == 1, ErrorKind::invalid_argument,
          "{} sources of a key, expected one of a key file, a key command and a password", given);
}

Key read_key(const KeySource& source) {
  return source.file.empty() ? protect::read_key_of_command(source.command) : protect::read_key_file(source.file);
}

Secret read_password(const KeySource& source, bool is_new) {
  return source.password_file.empty() ? protect::ask_password(is_new)
                                      : protect::read_password_file(source.password_file);
}

bool is_password(const KeySource& source) {
  return !source.password_file.empty() || source.asks_for_password;
}

class SourceKey : public ModelKey {
 public:
  explicit SourceKey(KeySource source) : source_(std::move(source)) { check_source(source_); }

  std::shared_ptr<const io::SectionDecoder> open(const io::Container& file) const override {
    Protection protection = protect::protection_of(file);
    auto file_key = std::make_shared<const Secret>(unwrap(protection));
    return std::make_shared<protect::FileDecoder>(file, std::move(protection), std::move(file_key));
  }

  Secret unwrap(const Protection& protection) const {
    const std::lock_guard lock(mutex_);
    if (is_password(source_)) {
      if (password_.size() == 0) password_ = read_password(source_, false);
      return protect::unwrap_by_password(protection, password_);
    }
    if (key_.bytes.size() == 0) key_ = read_key(source_);
    return protect::unwrap_by_key(protection, key_);
  }

 private:
  KeySource source_;
  mutable std::mutex mutex_;
  mutable Key key_;  // once it is fetched
  mutable Secret password_;
};

std::vector<protect::KeySlot> wrap_for_all(const Secret& file_key, const protect::KeyId& id,
                                           const std::vector<KeySource>& keys) {
  require(!keys.empty(), ErrorKind::invalid_argument,
          "there is no key to protect the model for; name one by --key-file, --key-command, --recipient or --password");
  std::vector<protect::KeySlot> slots;
  for (const KeySource& source : keys) {
    check_source(source);
    slots.push_back(is_password(source) ? protect::wrap_for_password(file_key, id, read_password(source, true))
                                        : protect::wrap_for_key(file_key, id, read_key(source)));
  }
  return slots;
}

std::vector<std::string> describe_all(const std::vector<protect::KeySlot>& slots) {
  std::vector<std::string> texts;
  for (const protect::KeySlot& slot : slots) texts.push_back(protect::describe(slot));
  return texts;
}

// An encoder with a new file key, and what there is to say about its files.
struct NewEncoder {
  std::shared_ptr<const protect::FileEncoder> encoder;
  ProtectReport report;
};

NewEncoder make_encoder(const ProtectOptions& options) {
  auto file_key = std::make_shared<const Secret>(Secret::random(protect::kFileKeyBytes));
  protect::KeyId id;
  randombytes_buf(id.data(), id.size());
  std::vector<protect::KeySlot> slots = wrap_for_all(*file_key, id, options.keys);
  std::shared_ptr<const Key> publisher;
  if (!options.publisher.empty()) {
    publisher = std::make_shared<const Key>(protect::read_key_file(options.publisher));
    require(publisher->kind == KeyKind::publisher_secret, ErrorKind::invalid_argument,
            "'{}' has a key of kind {}, which cannot sign; expected publisher-secret", options.publisher,
            protect::name_of(publisher->kind));
  }
  ProtectReport report{0, describe_all(slots), publisher != nullptr};
  return {std::make_shared<const protect::FileEncoder>(std::move(file_key), id, std::move(slots), std::move(publisher)),
          std::move(report)};
}

void check_name(const std::filesystem::path& path) {
  require(path.extension() == ".tsr", ErrorKind::invalid_argument,
          "a protected model is a package: give '{}' a name that ends in .tsr", path.string());
  io::check_output(path);
}

// The sections of an unprotected package, each as it is.
ProtectReport protect_package(const io::Container& file, const std::filesystem::path& path,
                              const ProtectOptions& options) {
  require(!file.is_protected(), ErrorKind::invalid_argument,
          "the model is protected already; --rewrap writes it for other keys");
  std::vector<io::SectionContent> contents;
  for (const io::Section& section : file.sections()) {
    file.verify(section);
    contents.emplace_back(section.name, section.kind, section.codec, section.raw_bytes).append(file.bytes_of(section));
  }
  NewEncoder made = make_encoder(options);
  made.report.file_bytes = io::write_container(path, contents, made.encoder.get());
  return made.report;
}

}  // namespace

std::shared_ptr<const ModelKey> make_model_key(const KeySource& source) {
  return std::make_shared<SourceKey>(source);
}

ProtectReport protect_model(const Model& model, const std::filesystem::path& path, const ProtectOptions& options,
                            const OptimiseOptions& optimise_options) {
  check_name(path);
  require(model.package() == nullptr || model.package()->decoder == nullptr, ErrorKind::invalid_argument,
          "the model is protected already; --rewrap writes it for other keys");
  NewEncoder made = make_encoder(options);
  OptimiseOptions with = optimise_options;
  with.encoder = made.encoder;
  made.report.file_bytes = optimise(model, path, with).file_bytes;
  return made.report;
}

ProtectReport protect_model(const std::filesystem::path& model, const std::filesystem::path& path,
                            const ProtectOptions& options, const OptimiseOptions& optimise_options) {
  check_name(path);
  try {
    const std::shared_ptr<const io::MappedFile> file = io::MappedFile::map(io::InputFile::open(model));
    if (io::is_container(file->bytes())) return protect_package({file->bytes(), file}, path, options);
  } catch (Error& error) {
    error.add_context("file " + model.string());
    throw;
  }
  return protect_model(Model::load(model), path, options, optimise_options);
}

ProtectReport rewrap_model(const std::filesystem::path& path, const std::filesystem::path& to, const KeySource& current,
                           const ProtectOptions& options) {
  check_name(to);
  require(options.publisher.empty(), ErrorKind::invalid_argument,
          "a file is signed when it is protected, not when it is written for other keys");
  try {
    const std::shared_ptr<const io::MappedFile> file = io::MappedFile::map(io::InputFile::open(path));
    const io::Container container(file->bytes(), file);
    Protection protection = protect::protection_of(container);
    const auto file_key = std::make_shared<const Secret>(SourceKey(current).unwrap(protection));
    const protect::FileDecoder authentic(container, protection, file_key);
    protection.slots = wrap_for_all(*file_key, protection.key_id, options.keys);
    const std::span<const io::Section> table = std::span(container.sections()).first(protection.sections.size());
    for (const io::Section& section : table) container.verify(section);
    protection.mac = protect::mac_of(protection, table, container.sections().back().offset, *file_key);
    const std::int64_t bytes = io::rewrite_container(to, container, protect::write_protection(protection));
    return {bytes, describe_all(protection.slots), !protection.signatures.empty()};
  } catch (Error& error) {
    error.add_context("file " + path.string());
    throw;
  }
}

void write_new_keys(const std::filesystem::path& folder) {
  protect::write_new_keys(folder);
}

void check_signature(const std::filesystem::path& path, const std::filesystem::path& publisher) {
  const Key key = protect::read_key_file(publisher);
  require(key.kind == KeyKind::publisher, ErrorKind::invalid_argument,
          "'{}' has a key of kind {}, which verifies no signatures; expected publisher", publisher.string(),
          protect::name_of(key.kind));
  try {
    const std::shared_ptr<const io::MappedFile> file = io::MappedFile::map(io::InputFile::open(path));
    const io::Container container(file->bytes(), file);
    require(container.is_protected(), ErrorKind::invalid_model,
            "the file is not protected, and so has no signature; 'tessera protect --sign' writes one");
    const Protection protection = protect::protection_of(container);
    const std::span<const io::Section> table = std::span(container.sections()).first(protection.sections.size());
    const protect::Digest digest = protect::signed_digest(protection, table);
    const bool is_signed = std::ranges::any_of(protection.signatures, [&](const protect::Signature& each) {
      return std::ranges::equal(each.publisher, key.bytes.bytes()) &&
             crypto_sign_verify_detached(each.signature.data(), digest.data(), digest.size(), key.bytes.data()) == 0;
    });
    require(is_signed, ErrorKind::invalid_model, "the file has no valid signature of this publisher");
    for (std::size_t i = 0; i < table.size(); ++i)
      require(protect::digest_of(container.bytes_of(table[i])) == protection.sections[i].digest,
              ErrorKind::invalid_model, "section '{}' is not what its publisher signed", table[i].name);
  } catch (Error& error) {
    error.add_context("file " + path.string());
    throw;
  }
}

}  // namespace tessera
