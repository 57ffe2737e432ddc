#include "io/toml_table.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>

#include "base/edit_distance.h"
#include "base/error.h"
#include "base/text.h"
#include "io/toml_parser.h"

namespace tessera::io {

struct TomlTable::Content {
  toml::table table;
  std::string where;   // of the whole text
  std::string prefix;  // "optimiser.schedule."
  std::set<std::string, std::less<>> asked;
  std::vector<std::shared_ptr<Content>> children;
};

namespace {

// One "key.of.table=value".
void apply_setting(toml::table& root, const std::string& setting) {
  const std::size_t equals = setting.find('=');
  require(equals != std::string::npos && equals > 0, ErrorKind::invalid_argument,
          "the setting '{}' is no KEY=VALUE, such as train.seed=3", base::shown(setting));
  const std::string value = setting.substr(equals + 1);
  std::vector<std::string> keys(1);
  for (const char c : std::string_view(setting).substr(0, equals)) {
    if (c == '.') keys.emplace_back();
    else keys.back() += c;
  }
  toml::table holder;
  try {
    holder = parse_toml("value = " + value, "");
  } catch (const Error&) {
    holder.insert_or_assign("value", value);
  }
  if (holder.size() != 1) {  // a value with a line break and more keys behind it
    holder = toml::table{};
    holder.insert_or_assign("value", value);
  }
  toml::table* table = &root;
  for (std::size_t i = 0; i + 1 < keys.size(); ++i) {
    toml::node* next = table->get(keys[i]);
    if (next == nullptr) next = &table->insert_or_assign(keys[i], toml::table{}).first->second;
    require(next->is_table(), ErrorKind::invalid_argument, "the setting '{}': '{}' is no table", base::shown(setting),
            keys[i]);
    table = next->as_table();
  }
  holder.get("value")->visit([&](auto& node) { table->insert_or_assign(keys.back(), std::move(node)); });
}

}  // namespace

TomlTable TomlTable::parse(std::string_view text, const std::string& where, const std::vector<std::string>& settings) {
  auto content = std::make_shared<Content>();
  content->table = parse_toml(text, where);
  content->where = where;
  for (const std::string& setting : settings) apply_setting(content->table, setting);
  return TomlTable(std::move(content));
}

std::string TomlTable::place(std::string_view key) const {
  return content_->where + ": " + content_->prefix + std::string(key);
}

void TomlTable::wrong_kind(std::string_view key, const char* expected) const {
  std::ostringstream found;
  found << toml::node_view<const toml::node>(content_->table.get(key));
  fail(ErrorKind::invalid_argument, "{} is {}, expected {}", place(key), base::shown(found.str()), expected);
}

bool TomlTable::has(std::string_view key) {
  content_->asked.emplace(key);
  return content_->table.contains(key);
}

bool TomlTable::is_text(std::string_view key) {
  return has(key) && content_->table.get(key)->is_string();
}

std::string TomlTable::text(std::string_view key, std::string otherwise) {
  if (!has(key)) return otherwise;
  const std::optional<std::string> value = content_->table.get(key)->value_exact<std::string>();
  if (!value) wrong_kind(key, "text in quotes");
  return *value;
}

double TomlTable::number(std::string_view key, double otherwise) {
  if (!has(key)) return otherwise;
  const toml::node& node = *content_->table.get(key);
  if (!node.is_number()) wrong_kind(key, "a number");
  return *node.value<double>();
}

std::int64_t TomlTable::whole(std::string_view key, std::int64_t otherwise) {
  if (!has(key)) return otherwise;
  const std::optional<std::int64_t> value = content_->table.get(key)->value_exact<std::int64_t>();
  if (!value) wrong_kind(key, "a whole number");
  return *value;
}

bool TomlTable::boolean(std::string_view key, bool otherwise) {
  if (!has(key)) return otherwise;
  const std::optional<bool> value = content_->table.get(key)->value_exact<bool>();
  if (!value) wrong_kind(key, "true or false");
  return *value;
}

std::string TomlTable::value_as_text(std::string_view key) {
  if (!has(key)) return {};
  const toml::node& node = *content_->table.get(key);
  if (const auto value = node.value_exact<std::string>()) return *value;
  if (const auto value = node.value_exact<std::int64_t>()) return fmt::format("{}", *value);
  if (const auto value = node.value_exact<double>()) return fmt::format("{}", *value);
  if (const auto value = node.value_exact<bool>()) return *value ? "true" : "false";
  wrong_kind(key, "a text, a number, true or false");
}

std::vector<std::string> TomlTable::texts(std::string_view key) {
  if (!has(key)) return {};
  const toml::node& node = *content_->table.get(key);
  if (const auto one = node.value_exact<std::string>()) return {*one};
  if (!node.is_array()) wrong_kind(key, "a list of texts");
  std::vector<std::string> values;
  for (const toml::node& element : *node.as_array()) {
    const auto value = element.value_exact<std::string>();
    if (!value) wrong_kind(key, "a list of texts");
    values.push_back(*value);
  }
  return values;
}

std::vector<double> TomlTable::numbers(std::string_view key) {
  if (!has(key)) return {};
  const toml::node& node = *content_->table.get(key);
  if (node.is_number()) return {*node.value<double>()};
  if (!node.is_array()) wrong_kind(key, "a list of numbers");
  std::vector<double> values;
  for (const toml::node& element : *node.as_array()) {
    if (!element.is_number()) wrong_kind(key, "a list of numbers");
    values.push_back(*element.value<double>());
  }
  return values;
}

std::vector<std::string> TomlTable::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, node] : content_->table) keys.emplace_back(key.str());
  return keys;
}

std::vector<std::string> TomlTable::tables() const {
  std::vector<std::string> keys;
  for (const auto& [key, node] : content_->table) {
    if (node.is_table()) keys.emplace_back(key.str());
  }
  return keys;
}

TomlTable TomlTable::table(std::string_view key) {
  auto child = std::make_shared<Content>();
  child->where = content_->where;
  child->prefix = content_->prefix + std::string(key) + ".";
  if (has(key)) {
    const toml::node& node = *content_->table.get(key);
    if (const auto name = node.value_exact<std::string>()) child->table.insert_or_assign("name", *name);
    else if (node.is_table()) child->table = *node.as_table();
    else wrong_kind(key, "a table");
  }
  content_->children.push_back(child);
  return TomlTable(std::move(child));
}

std::vector<TomlTable> TomlTable::table_list(std::string_view key) {
  if (!has(key)) return {};
  const toml::node& node = *content_->table.get(key);
  if (!node.is_array()) return {table(key)};
  std::vector<TomlTable> tables;
  for (const toml::node& element : *node.as_array()) {
    if (!element.is_table()) wrong_kind(key, "a list of tables");
    auto child = std::make_shared<Content>();
    child->where = content_->where;
    child->prefix = fmt::format("{}{}[{}].", content_->prefix, key, tables.size());
    child->table = *element.as_table();
    content_->children.push_back(child);
    tables.push_back(TomlTable(std::move(child)));
  }
  return tables;
}

std::map<std::string, std::int64_t> TomlTable::all_wholes() {
  std::map<std::string, std::int64_t> values;
  for (const auto& [key, node] : content_->table) values[std::string(key.str())] = whole(key.str(), 0);
  return values;
}

std::map<std::string, std::string> TomlTable::all_texts() {
  std::map<std::string, std::string> values;
  for (const auto& [key, node] : content_->table) values[std::string(key.str())] = text(key.str(), "");
  return values;
}

void TomlTable::make_absolute(std::string_view dotted_key) {
  toml::value<std::string>* text = content_->table.at_path(dotted_key).as_string();
  if (text != nullptr && !text->get().empty())
    *text = std::filesystem::absolute(text->get()).lexically_normal().string();
}

std::string TomlTable::as_toml() const {
  std::ostringstream text;
  text << content_->table << '\n';
  return text.str();
}

void TomlTable::check_all_read() const {
  for (const auto& [key, node] : content_->table) {
    if (content_->asked.contains(key.str())) continue;
    std::string_view nearest;
    std::size_t least = 4;  // beyond that the words have nothing to do with each other
    std::string all;
    for (const std::string& known : content_->asked) {
      all += (all.empty() ? "" : ", ") + known;
      const std::size_t distance = base::edit_distance(key.str(), known);
      if (distance < least) least = distance, nearest = known;
    }
    const std::string unknown = place(base::shown(key.str()));
    require(nearest.empty(), ErrorKind::invalid_argument, "{} is unknown; did you mean '{}'?", unknown, nearest);
    fail(ErrorKind::invalid_argument, "{} is unknown; known here: {}", unknown, all);
  }
  for (const auto& child : content_->children) TomlTable(child).check_all_read();
}

}  // namespace tessera::io
