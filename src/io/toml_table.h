// Configuration files in TOML (https://toml.io/en/v1.0.0), read key by key: what nobody asked for is an error that
// names the nearest key that there is.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::io {

// A table of a file. Copies share what was read. All functions throw Error(invalid_argument) for a value of another
// kind, naming its place.
class TomlTable {
 public:
  // `where` names the text in messages. Settings are "key.of.table=value", written over what the text has; a value that
  // is no TOML is taken as text. Throws Error(invalid_argument) with line and column for text that is no TOML.
  static TomlTable parse(std::string_view text, const std::string& where,
                         const std::vector<std::string>& settings = {});

  bool has(std::string_view key);
  bool is_text(std::string_view key);
  std::string text(std::string_view key, std::string otherwise);
  double number(std::string_view key, double otherwise);
  std::int64_t whole(std::string_view key, std::int64_t otherwise);
  bool boolean(std::string_view key, bool otherwise);
  std::vector<std::string> texts(std::string_view key);  // a list, or one text alone
  std::vector<double> numbers(std::string_view key);     // likewise
  // A text, number or boolean as text: 0.5 as "0.5", true as "true".
  std::string value_as_text(std::string_view key);
  // The table of that key, empty when it is not there. A text in its place counts as { name = text }.
  TomlTable table(std::string_view key);
  // The tables of a list of tables ([[key]]), or the only one where the key holds one; none where it is not there.
  std::vector<TomlTable> table_list(std::string_view key);
  // All keys of the table, in alphabetical order. Reading them is left to the caller.
  std::vector<std::string> keys() const;
  // The keys of the table that hold tables, in alphabetical order.
  std::vector<std::string> tables() const;
  // The keys of the table with whole numbers, or with texts, whatever they are called.
  std::map<std::string, std::int64_t> all_wholes();
  std::map<std::string, std::string> all_texts();

  // The text at "key.of.table", a path relative to the current folder, becomes absolute in as_toml(). An empty text,
  // and what is no text, stays.
  void make_absolute(std::string_view dotted_key);
  std::string as_toml() const;

  // Throws Error(invalid_argument) for a key of this table, or of one that was read from it, that was not asked for.
  void check_all_read() const;

 private:
  struct Content;
  explicit TomlTable(std::shared_ptr<Content> content) : content_(std::move(content)) {}
  std::string place(std::string_view key) const;
  [[noreturn]] void wrong_kind(std::string_view key, const char* expected) const;

  std::shared_ptr<Content> content_;
};

}  // namespace tessera::io
