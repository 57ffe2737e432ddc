#include "protect/key_file.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/error.h"
#include "io/file.h"
#include "io/output_file.h"

namespace tessera::protect {
namespace {

constexpr std::string_view kPrefix = "tessera-key-1 ";
constexpr int kBase64 = sodium_base64_VARIANT_ORIGINAL;

struct KindName {
  KeyKind kind;
  std::string_view name;
  std::size_t bytes;
};
constexpr KindName kKinds[] = {
    {KeyKind::symmetric, "symmetric", kKeyBytes},
    {KeyKind::recipient, "recipient", crypto_box_PUBLICKEYBYTES},
    {KeyKind::recipient_secret, "recipient-secret", crypto_box_SECRETKEYBYTES},
    {KeyKind::publisher, "publisher", crypto_sign_PUBLICKEYBYTES},
    {KeyKind::publisher_secret, "publisher-secret", crypto_sign_SECRETKEYBYTES},
};

const KindName& entry_of(KeyKind kind) {
  return *std::ranges::find(kKinds, kind, &KindName::kind);
}

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view without_line_end(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

Secret read_secret_file(const std::filesystem::path& path) {
  io::InputFile file = io::InputFile::open(path);
  require(file.bytes() <= static_cast<std::int64_t>(kMostKeyFileBytes), ErrorKind::invalid_argument,
          "'{}' has {} bytes, a key file or password has at most {}", path.string(), file.bytes(), kMostKeyFileBytes);
  Secret bytes(static_cast<std::size_t>(file.bytes()));
  file.read(std::as_writable_bytes(std::span(bytes.data(), bytes.size())));
  return bytes;
}

// A file that did not exist and that, if it is secret, its owner alone can read.
void write_key(const std::filesystem::path& path, KeyKind kind, Bytes key) {
  const KindName& entry = entry_of(kind);
  Secret line(kPrefix.size() + entry.name.size() + 1 + sodium_base64_encoded_len(key.size(), kBase64));
  char* const text = reinterpret_cast<char*>(line.data());
  std::size_t at = kPrefix.copy(text, kPrefix.size());
  at += entry.name.copy(text + at, entry.name.size());
  text[at++] = ' ';
  sodium_bin2base64(text + at, line.size() - at, key.data(), key.size(), kBase64);
  text[line.size() - 1] = '\n';
  const bool is_public = kind == KeyKind::recipient || kind == KeyKind::publisher;
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, is_public ? 0644 : 0600);
  require(file >= 0, ErrorKind::io, "cannot write the key '{}': {}", path.string(),
          errno == EEXIST ? "there is a file of that name, and a lost key cannot be made again"
                          : std::generic_category().message(errno));
  const bool written = ::write(file, text, line.size()) == static_cast<::ssize_t>(line.size()) && ::fsync(file) == 0;
  ::close(file);
  require(written, ErrorKind::io, "cannot write the key '{}'", path.string());
}

}  // namespace

std::string_view name_of(KeyKind kind) {
  return entry_of(kind).name;
}

Key parse_key(Bytes bytes, const std::string& source) {
  std::string_view text = without_line_end(text_of(bytes));
  if (!text.starts_with(kPrefix)) {
    require(
        bytes.size() == kKeyBytes, ErrorKind::invalid_argument,
        "{} is no key: expected a line 'tessera-key-1 KIND BASE64', as 'tessera protect --new-key' writes it, or {} "
        "bytes",
        source, kKeyBytes);
    return {KeyKind::symmetric, Secret::copy_of(bytes)};
  }
  text.remove_prefix(kPrefix.size());
  const std::string_view name = text.substr(0, text.find(' '));
  const auto* const kind = std::ranges::find(kKinds, name, &KindName::name);
  require(kind != std::end(kKinds), ErrorKind::invalid_argument, "{} has a key of an unknown kind", source);
  text.remove_prefix(std::min(name.size() + 1, text.size()));
  Key key{kind->kind, Secret(kind->bytes)};
  std::size_t decoded = 0;
  const bool valid = sodium_base642bin(key.bytes.data(), key.bytes.size(), text.data(), text.size(), nullptr, &decoded,
                                       nullptr, kBase64) == 0;
  require(valid && decoded == kind->bytes, ErrorKind::invalid_argument,
          "{} has a key of kind {} that is not {} bytes in base64", source, name, kind->bytes);
  return key;
}

Key read_key_file(const std::filesystem::path& path) {
  return parse_key(read_secret_file(path).bytes(), "'" + path.string() + "'");
}

Secret read_password_file(const std::filesystem::path& path) {
  const Secret bytes = read_secret_file(path);
  const std::string_view line = without_line_end(text_of(bytes.bytes()));
  require(!line.empty() && line.find('\n') == std::string_view::npos, ErrorKind::invalid_argument,
          "'{}' has no password: expected one line", path.string());
  return Secret::copy_of(bytes.first(line.size()));
}

void write_new_keys(const std::filesystem::path& folder) {
  io::make_folder(folder);
  write_key(folder / "model.key", KeyKind::symmetric, Secret::random(kKeyBytes).bytes());
  Secret secret(crypto_box_SECRETKEYBYTES), open(crypto_box_PUBLICKEYBYTES);
  crypto_box_keypair(open.data(), secret.data());
  write_key(folder / "recipient.key", KeyKind::recipient_secret, secret.bytes());
  write_key(folder / "recipient.pub", KeyKind::recipient, open.bytes());
  Secret signing(crypto_sign_SECRETKEYBYTES), verifying(crypto_sign_PUBLICKEYBYTES);
  crypto_sign_keypair(verifying.data(), signing.data());
  write_key(folder / "publisher.key", KeyKind::publisher_secret, signing.bytes());
  write_key(folder / "publisher.pub", KeyKind::publisher, verifying.bytes());
}

}  // namespace tessera::protect
