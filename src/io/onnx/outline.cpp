#include "io/onnx/outline.h"

#include "base/error.h"
#include "io/onnx/importer.h"
#include "io/onnx/parsed_model.h"
#include "io/package.h"

namespace tessera::io {
namespace {

using tessera_onnx::AttributeProto;
using tessera_onnx::GraphProto;
using tessera_onnx::NodeProto;
using tessera_onnx::ValueInfoProto;

using Texts = google::protobuf::RepeatedPtrField<std::string>;

std::vector<std::string> to_texts(const Texts& texts) {
  return {texts.begin(), texts.end()};
}

// Types that Tessera does not have are left open.
ir::ValueType declared_type(const tessera_onnx::TypeProto& proto) {
  try {
    return to_value_type(proto);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
    return {};
  }
}

std::string operator_name(const std::string& domain, const std::string& name) {
  const std::string canonical = canonical_domain(domain);
  return canonical.empty() ? name : canonical + "::" + name;
}

class OutlineReader {
 public:
  explicit OutlineReader(TensorReader& tensors) : tensors_(tensors) {}

  Outline run(const ParsedModel& parsed) {
    Outline outline{to_graph(parsed.model.graph(), &parsed.raw_data), {}};
    for (const tessera_onnx::FunctionProto& function : parsed.model.functions()) {
      OutlineFunction& entry = outline.functions.emplace_back();
      entry.name = operator_name(function.domain(), function.name());
      entry.inputs = to_texts(function.input());
      entry.outputs = to_texts(function.output());
      entry.attributes = to_texts(function.attribute());
      for (const AttributeProto& attribute : function.attribute_proto()) entry.attributes.push_back(attribute.name());
      entry.body.doc_string = function.doc_string();
      for (const ValueInfoProto& value : function.value_info()) entry.body.values.push_back(to_value(value));
      for (const NodeProto& node : function.node()) entry.body.nodes.push_back(to_node(node));
    }
    return outline;
  }

 private:
  OutlineValue to_value(const ValueInfoProto& proto) { return {proto.name(), declared_type(proto.type())}; }

  OutlineGraph to_graph(const GraphProto& proto, const Importer::RawData* raw_data) {
    OutlineGraph graph{.name = proto.name(),
                       .doc_string = proto.doc_string(),
                       .inputs = {},
                       .outputs = {},
                       .values = {},
                       .weights = {},
                       .nodes = {}};
    for (const ValueInfoProto& value : proto.input()) graph.inputs.push_back(to_value(value));
    for (const ValueInfoProto& value : proto.output()) graph.outputs.push_back(to_value(value));
    for (const ValueInfoProto& value : proto.value_info()) graph.values.push_back(to_value(value));
    for (int i = 0; i < proto.initializer_size(); ++i) {
      const auto& weight = proto.initializer(i);
      graph.weights.push_back({weight.name(), raw_data != nullptr
                                                  ? tensors_.read(weight, (*raw_data)[static_cast<std::size_t>(i)])
                                                  : tensors_.read(weight)});
    }
    for (const auto& weight : proto.sparse_initializer())
      graph.weights.push_back({weight.values().name(), tensors_.read_sparse(weight)});
    for (const NodeProto& node : proto.node()) graph.nodes.push_back(to_node(node));
    return graph;
  }

  OutlineNode to_node(const NodeProto& proto) {
    OutlineNode node{operator_name(proto.domain(), proto.op_type()),
                     proto.name(),
                     proto.doc_string(),
                     to_texts(proto.input()),
                     to_texts(proto.output()),
                     {}};
    for (const AttributeProto& attribute : proto.attribute()) node.attributes.push_back(to_attribute(attribute));
    return node;
  }

  OutlineAttribute to_attribute(const AttributeProto& proto) {
    OutlineAttribute attribute{proto.name(), {}};
    if (!proto.ref_attr_name().empty()) {
      attribute.value = OutlineReference{proto.ref_attr_name()};
      return attribute;
    }
    switch (attribute_type(proto)) {  // the numbers of AttributeProto.type, see onnx.proto
      case 1:
        attribute.value = proto.f();
        break;
      case 2:
        attribute.value = proto.i();
        break;
      case 3:
        attribute.value = proto.s();
        break;
      case 4:
        attribute.value = tensors_.read(proto.t());
        break;
      case 5:
        attribute.value = std::vector{std::make_shared<const OutlineGraph>(to_graph(proto.g(), nullptr))};
        break;
      case 6:
        attribute.value = std::vector<float>(proto.floats().begin(), proto.floats().end());
        break;
      case 7:
        attribute.value = std::vector<std::int64_t>(proto.ints().begin(), proto.ints().end());
        break;
      case 8:
        attribute.value = to_texts(proto.strings());
        break;
      case 9: {
        std::vector<Tensor> tensors;
        for (const auto& tensor : proto.tensors()) tensors.push_back(tensors_.read(tensor));
        attribute.value = std::move(tensors);
        break;
      }
      case 10: {
        std::vector<OutlineGraphPointer> graphs;
        for (const GraphProto& graph : proto.graphs())
          graphs.push_back(std::make_shared<const OutlineGraph>(to_graph(graph, nullptr)));
        attribute.value = std::move(graphs);
        break;
      }
      case 11:
        attribute.value = tensors_.read_sparse(proto.sparse_tensor());
        break;
      case 13:
        attribute.value = declared_type(proto.tp());
        break;
      default:
        break;
    }
    return attribute;
  }

  TensorReader& tensors_;
};

}  // namespace

Outline read_outline(const std::filesystem::path& path, const ModelLimits& limits) {
  try {
    const std::shared_ptr<const MappedFile> file = MappedFile::map(InputFile::open(path));
    std::span<const std::byte> bytes = file->bytes();
    const bool packaged = is_container(bytes);
    const StoredGraph stored = packaged ? stored_graph(Container(bytes, file), limits) : StoredGraph{bytes, {}, file};
    TensorReader tensors(packaged ? std::nullopt : std::optional(path.parent_path()), stored.owner,
                         limits.max_dense_bytes);
    bytes = stored.graph;
    if (packaged) tensors.read_external_from(stored.constants);
    const ParsedModel parsed = parse_model(bytes, limits);
    require(parsed.raw_data.size() == static_cast<std::size_t>(parsed.model.graph().initializer_size()),
            ErrorKind::invalid_model, "not an ONNX model: the graph's initializers cannot be told apart");
    return OutlineReader(tensors).run(parsed);
  } catch (Error& error) {
    error.add_context("file " + path.string());
    throw;
  }
}

}  // namespace tessera::io
