// Reads JSON text from front to back without building a tree, so that a file's header of any size takes no memory but
// for what is wanted of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::io {

// Every function throws Error(invalid_model), which names the byte, where the text is not what was asked for.
class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text) : text_(text) {}

  // Calls entry(key) for each entry of an object; it has to read the value.
  template <typename Entry>
  void object(const Entry& entry) {
    expect('{');
    if (consume('}')) return;
    do {
      const std::string key = string();
      expect(':');
      entry(key);
    } while (consume(','));
    expect('}');
  }
  // Calls element() for each element of an array; it has to read the element.
  template <typename Element>
  void array(const Element& element) {
    expect('[');
    if (consume(']')) return;
    do element();
    while (consume(','));
    expect(']');
  }
  // With its escapes decoded. Throws Error(over_budget) beyond 1 MiB.
  std::string string();
  // A whole number from 0 to 2^63 − 1.
  std::int64_t size();
  // Passes over a value of any kind; throws Error(over_budget) when it is nested more than 64 deep.
  void skip(int nesting = 0);
  // Throws unless only white space is left.
  void end();
  // The next character that is no white space, or 0 at the end; it is not consumed.
  char next();

 private:
  void expect(char wanted);
  bool consume(char wanted);
  char32_t hexadecimal();
  [[noreturn]] void refuse(std::string_view expected) const;

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace tessera::io
