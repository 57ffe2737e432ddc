// What the peer tests need of the library. emit_graphs --operators prints each operator of ONNX that Tessera knows with
// its formal outputs, as "OP NAME=required|optional|variadic …"; emit_graphs FOLDER FIRST COUNT writes random graphs
// SEED.onnx and their inputs SEED.npz.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "io/onnx/writer.h"
#include "ops/op_table.h"
#include "report/values/value_files.h"
#include "support/random_graph.h"
#include "tessera/error.h"

namespace {

using namespace tessera;

void print_operators() {
  for (const ops::OpDef* op : ops::all_ops()) {
    fmt::print("{}", op->name);
    for (const ops::Parameter& output : op->outputs) {
      const bool required = output.option == ops::Parameter::Option::required;
      fmt::print(" {}={}", output.name,
                 required                         ? "required"
                 : output.option == ops::optional ? "optional"
                                                  : "variadic");
    }
    fmt::print("\n");
  }
}

void write_graphs(const std::filesystem::path& folder, std::uint64_t first, std::uint64_t count) {
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const test::GraphCase example = test::random_graph(seed);
    io::write_model(example.graph, folder / fmt::format("{}.onnx", seed));
    report::write_values_npz(folder / fmt::format("{}.npz", seed), example.inputs);
  }
}

}  // namespace

int main(int count, char** arguments) try {
  if (count == 2 && std::string_view(arguments[1]) == "--operators") print_operators();
  else if (count == 4)
    write_graphs(arguments[1], std::strtoull(arguments[2], nullptr, 10), std::strtoull(arguments[3], nullptr, 10));
  else return exit_code(ErrorKind::invalid_argument);
  return 0;
} catch (const Error& error) {
  fmt::print(stderr, "emit_graphs: {}\n", error.what());
  return exit_code(error.kind());
}
