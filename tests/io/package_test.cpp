// Packages: graphs, constants and packed weights in one file.
#include "io/package.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "io/onnx/mapped_file.h"
#include "io/onnx/writer.h"
#include "io/package/byte_stream.h"
#include "ir/text.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace tessera::test::package_test {
namespace {

// Constants large and small, a variable, a subgraph, an operator of our own.
ir::Graph make_graph() {
  ir::Graph graph = ir::parse(R"(graph "tiny" {
    metadata "property:owner" = "someone"
    input %x : f32[2, 3]
    input %flag : bool[]
    constant %small = f32[3] {1, 2, 3}
    variable %count "counter" = f32[3] {0, 0, 0} update %next
    %next = Add "step" (%count, %small) : f32[3]
    %y = If "choice" (%flag) captures (%x) {
      else_branch = graph "no" {
        input %x : f32[2, 3]  constant %two = f32[] {2}  %b = Mul (%x, %two) : f32[2, 3]  output %b },
      then_branch = graph "yes" { input %x : f32[2, 3]  %d = Relu (%x) : f32[2, 3]  output %d }} : f32[2, 3]
    output %y
  })");
  Tensor large(DType::f32, {3, 1000}), bytes(DType::u8, {20'000});
  for (std::int64_t i = 0; i < large.elements(); ++i) large.mutable_data<float>()[i] = static_cast<float>(i);
  for (std::int64_t i = 0; i < bytes.elements(); ++i)
    bytes.mutable_data<std::uint8_t>()[i] = static_cast<std::uint8_t>(i);
  const ir::ValueId weights = graph.add_constant(large, "large");
  graph.add_constant(large.reshaped({1000, 3}), "view of large");
  const ir::ValueId table = graph.add_constant(bytes, "bytes");
  const ir::ValueId product = graph.add_value("product", ir::ValueType::tensor(DType::f32, Shape{2, 1000}));
  graph.add_node({"MatMul", "product", {graph.inputs()[0], weights}, {product}, {}, 0});
  graph.add_output(product);
  const ir::ValueId copy = graph.add_value("copy", ir::ValueType::tensor(DType::u8, Shape{20'000}));
  graph.add_node({"Identity", "copy", {table}, {copy}, {}, 0});
  graph.add_output(copy);
  return graph;
}

const io::PackageInfo kInfo{"0.0.1", "cpu", "some+set", "f32", {"one", "two"}, {"three"}, true};

class PackageTest : public testing::Test {
 protected:
  io::Package read() const {
    const auto file = io::MappedFile::map(io::InputFile::open(path));
    return io::read_package(file->bytes(), file);
  }

  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "model.tsr";
};

const Tensor& constant(const ir::Graph& graph, std::string_view name) {
  return *graph.constant(graph.find_value(name));
}

TEST_F(PackageTest, HoldsGraphConstantsAndPackings) {
  ir::Graph graph = make_graph();
  graph.remove_dead_and_compact();
  const std::vector<std::byte> packed(100, std::byte{5}), other(64, std::byte{6});
  const Tensor& weights = constant(graph, "large");
  const io::WrittenPackage written = io::write_package(
      path, graph, kInfo,
      {{weights, "gemm", packed}, {weights, "other", other}, {Tensor(DType::f32, {1}), "no constant", packed}});
  EXPECT_EQ(written.packings, 2);
  EXPECT_EQ(written.packed_bytes, 164);
  EXPECT_EQ(static_cast<std::uintmax_t>(written.file_bytes), std::filesystem::file_size(path));
  io::verify_package(path);

  io::Package package = read();
  std::erase_if(package.graph.metadata, [](const auto& entry) {
    return entry.first == "ir_version" || entry.first == "producer_name" || entry.first.starts_with("opset:");
  });
  EXPECT_TRUE(ir::structurally_equal(package.graph, graph)) << ir::print(package.graph, {.max_constant_elements = 8});
  const io::PackageInfo& info = package.origin.info;
  EXPECT_EQ(info.instruction_set, "some+set");
  EXPECT_EQ(info.passes, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(info.without, std::vector<std::string>{"three"});
  EXPECT_TRUE(info.ready);

  const Tensor& read_weights = constant(package.graph, "large");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(read_weights.raw()) % 64, 0u);
  const io::StoredPackings& packings = *package.origin.packings;
  EXPECT_EQ(packings.size(), 2u);
  const std::span<const std::byte> found = packings.find(read_weights.raw(), "gemm");
  EXPECT_TRUE(std::ranges::equal(found, packed));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(found.data()) % 64, 0u);
  EXPECT_TRUE(packings.find(read_weights.raw(), "gemm2").empty());
  EXPECT_TRUE(packings.find(constant(package.graph, "bytes").raw(), "gemm").empty());
}

TEST_F(PackageTest, StoresWhatSharesItsBytesOnceAndEqualModelsAlike) {
  const ir::Graph graph = make_graph();
  io::write_package(path, graph, kInfo, {});
  io::write_package(folder / "again.tsr", graph, kInfo, {});
  EXPECT_EQ(io::read_file(path, 1 << 20), io::read_file(folder / "again.tsr", 1 << 20));
  const io::Package package = read();
  EXPECT_EQ(constant(package.graph, "large").raw(), constant(package.graph, "view of large").raw());
}

TEST_F(PackageTest, DecodesCodedConstants) {
  ir::Graph graph = make_graph();
  graph.remove_dead_and_compact();
  Tensor pruned(DType::f32, {300, 100});
  for (std::int64_t i = 0; i < pruned.elements(); ++i)
    pruned.mutable_data<float>()[i] = i % 17 == 0 ? static_cast<float>(i % 4) : 0.0f;
  const ir::ValueId copy = graph.add_op("Identity", {graph.add_constant(pruned, "pruned")}, {}, "pruned_copy");
  graph.value(copy).type = ir::ValueType::tensor(DType::f32, Shape{300, 100});
  graph.add_output(copy);
  const std::int64_t plain = io::write_package(folder / "plain.tsr", graph, kInfo, {}).file_bytes;
  const std::int64_t coded = io::write_package(path, graph, kInfo, {}, true).file_bytes;
  EXPECT_LT(coded, plain - 110'000);
  io::verify_package(path);
  const io::Package package = read();
  for (const char* name : {"pruned", "large", "bytes", "small"})
    EXPECT_TRUE(identical(constant(package.graph, name), constant(graph, name))) << name;
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(constant(package.graph, "pruned").raw()) % 64, 0u);
}

// --- files that lie ---

std::vector<std::byte> texts_info(bool ready) {
  io::ByteWriter out;
  for (int i = 0; i < 4; ++i) out.text("text");
  out.u32(ready ? 1 : 0);
  out.u32(0);
  out.u32(0);
  return out.take();
}

std::vector<std::byte> one_packing(std::uint64_t constant, std::uint64_t offset, std::uint64_t bytes,
                                   std::uint32_t count = 1) {
  io::ByteWriter out;
  out.u32(count);
  out.u64(constant);
  out.text("name");
  out.u64(offset);
  out.u64(bytes);
  return out.take();
}

class HostilePackage : public PackageTest {
 protected:
  // Writes sections 1 to 5 (information, graph, packings, constants, packed weights) but for those without a value.
  void write(const std::map<std::uint32_t, std::vector<std::byte>>& changes, std::uint32_t without = 0) {
    io::write_package(folder / "good.tsr", graph, kInfo, {});
    const auto file = io::MappedFile::map(io::InputFile::open(folder / "good.tsr"));
    const io::Container good(file->bytes(), file);
    std::vector<io::SectionContent> sections;
    for (const io::Section& section : good.sections()) {
      if (section.kind == without) continue;
      const auto changed = changes.find(section.kind);
      sections.emplace_back(section.name, section.kind)
          .append(changed != changes.end() ? std::span<const std::byte>(changed->second) : good.bytes_of(section));
    }
    io::write_container(path, sections);
  }
  void refuses(const std::string& message) {
    expect_error(ErrorKind::invalid_model, message, [&] { read(); });
  }

  ir::Graph graph = make_graph();
};

TEST_F(HostilePackage, IsRefusedWithoutASection) {
  const std::map<std::uint32_t, std::string> names{
      {1, "information"}, {2, "the graph"}, {3, "packings"}, {4, "constants"}, {5, "packed weights"}};
  for (const auto& [kind, name] : names) {
    write({}, kind);
    refuses("the package has no section of " + name);
  }
}

TEST_F(HostilePackage, IsRefusedForPackingsThatAreNotThere) {
  const std::vector<std::byte> packed(256);
  write({{3, one_packing(0, 64, 192)}, {5, packed}});
  EXPECT_EQ(read().origin.packings->bytes(), 192);
  write({{3, one_packing(0, 64, 193)}, {5, packed}});
  refuses("packing 'name' has 193 bytes from byte 64 on of a section of 256");
  write({{3, one_packing(0, ~std::uint64_t{63}, 128)}, {5, packed}});
  refuses("packing 'name' has 128 bytes from byte 18446744073709551552 on of a section of 256");
  write({{3, one_packing(0, 8, 8)}, {5, packed}});
  refuses("packing 'name' begins at byte 8, which is no multiple of 64");
  write({{3, one_packing(1 << 20, 0, 8)}, {5, packed}});
  refuses("packing 'name' is of a constant at byte 1048576 of 32032");
  write({{3, one_packing(0, 0, 8, 0xFFFFFFFF)}, {5, packed}});
  refuses("a list of 4294967295 entries does not fit in the 32 bytes that are left");
  write({{3, one_packing(0, 0, 8, 0)}, {5, packed}});
  refuses("the list of packings goes on behind its end");
}

TEST_F(HostilePackage, IsRefusedForInformationThatIsCutOff) {
  const std::vector<std::byte> info = texts_info(true);
  for (std::size_t length = 0; length < info.size(); ++length) {
    write({{1, {info.begin(), info.begin() + static_cast<std::ptrdiff_t>(length)}}});
    EXPECT_THROW(read(), Error) << length;
  }
}

TEST_F(HostilePackage, IsRefusedForConstantsThatAreNotThere) {
  write({{4, std::vector<std::byte>(100)}});
  expect_error_containing(ErrorKind::invalid_model,
                          "external data: 12000 bytes at offset 0 of '#constants', which has 100 bytes",
                          [&] { read(); });
}

TEST_F(HostilePackage, IsRefusedForDataOutsideOfIt) {
  io::write_model(graph, folder / "outside.onnx", {.external_data_threshold = 1024});
  write({{2, io::read_file(folder / "outside.onnx", 1 << 20)}});
  expect_error_containing(ErrorKind::invalid_model,
                          "external data 'outside.onnx.data' in a package, whose data all lie in itself",
                          [&] { read(); });
}

std::vector<std::byte> entries(std::uint32_t count, const std::vector<std::string>& texts) {
  io::ByteWriter out;
  out.u32(count);
  for (const std::string& text : texts) out.text(text);
  return out.take();
}

TEST_F(HostilePackage, IsRefusedForMetadataThatMakeNoSense) {
  write({{6, entries(1, {"key", "text"})}});
  EXPECT_EQ(read().graph.metadata, (std::map<std::string, std::string>{{"key", "text"}}));
  write({}, 6);  // as packages had it before there was such a section
  EXPECT_EQ(read().graph.metadata.at("property:owner"), "someone");
  write({{6, entries(2, {"key", "text", "key", "other"})}});
  refuses("the metadata has two entries 'key'");
  write({{6, entries(1, {"key", "text", "more"})}});
  refuses("the metadata goes on behind its end");
  write({{6, entries(4, {"key", "text"})}});
  refuses("a list of 4 entries does not fit in the 15 bytes that are left");
  write({{6, entries(1, {"key", std::string(100'000, 'x')})}});
  const auto file = io::MappedFile::map(io::InputFile::open(path));
  expect_error(ErrorKind::over_budget,
               "the metadata of 1 entries takes 100143 bytes of memory, at most 100000 are allowed",
               [&] { io::read_package(file->bytes(), file, {.max_parsed_bytes = 100'000}); });
}

TEST_F(HostilePackage, IsRefusedForCodesThatAskForTooMuchOrAreOfSomethingElse) {
  const auto write_coded = [&](std::uint32_t kind, std::uint64_t raw_bytes) {
    io::write_package(folder / "good.tsr", graph, kInfo, {}, true);
    const auto file = io::MappedFile::map(io::InputFile::open(folder / "good.tsr"));
    const io::Container good(file->bytes(), file);
    std::vector<io::SectionContent> sections;
    for (const io::Section& section : good.sections()) {
      const bool coded = section.kind == kind;
      sections
          .emplace_back(section.name, section.kind, coded ? io::Codec::weights : io::Codec::none,
                        coded ? raw_bytes : section.stored_bytes)
          .append(good.bytes_of(section));
    }
    io::write_container(path, sections);
  };
  write_coded(4, std::uint64_t{1} << 40);
  expect_error_containing(ErrorKind::over_budget,
                          "the coded constants would take 1099511627776 bytes of memory, at most 268435456 are allowed",
                          [&] { read(); });
  write_coded(4, 100);
  expect_error_containing(ErrorKind::invalid_model, "lie outside, or over those before them", [&] { read(); });
  write_coded(2, 100);
  expect_error_containing(ErrorKind::unsupported, "section 'graph' is coded, which only constants may be",
                          [&] { read(); });
}

TEST_F(HostilePackage, CannotSayThatAnyShapeIsReady) {
  graph.value(graph.inputs()[0]).type = ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("n"), ir::Dim(3)});
  write({{1, texts_info(true)}});
  refuses("the package is said to be ready, but input 'x' is f32[n, 3]");
  write({{1, texts_info(false)}});
  EXPECT_FALSE(read().origin.info.ready);
}

}  // namespace
}  // namespace tessera::test::package_test
