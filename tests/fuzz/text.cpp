// Text → graph → text → an equal graph.
#include "ir/text.h"

#include "target.h"
#include "tessera/error.h"

namespace tessera::fuzz {
namespace {

std::optional<ir::Graph> parse(std::string_view text) {
  try {
    return ir::parse(text);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

void text(std::span<const std::byte> input) {
  const std::optional<ir::Graph> graph = parse({reinterpret_cast<const char*>(input.data()), input.size()});
  if (!graph) return;
  const std::string printed = ir::print(*graph);
  std::optional<ir::Graph> back;
  try {
    back = ir::parse(printed);
  } catch (const Error& error) {
    finding(std::string("a graph that was parsed is printed as text that is refused: ") + error.what() + "\n" +
            printed);
  }
  if (!ir::structurally_equal(*graph, *back))
    finding("what was printed parses as another graph.\nparsed:\n" + printed + "\nparsed again:\n" + ir::print(*back));
}

}  // namespace tessera::fuzz
