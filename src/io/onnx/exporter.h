// Converts a graph in the form of a file to a ModelProto.
#pragma once

#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "io/onnx/file_form.h"
#include "ir/graph.h"
#include "onnx.pb.h"

namespace tessera::io {

class Exporter {
 public:
  // Stores the elements of a tensor whose type, shape and name are set already.
  using StoreData = std::function<void(const Tensor&, tessera_onnx::TensorProto&)>;

  Exporter(const FileForm& form, StoreData store_data) : form_(form), store_data_(std::move(store_data)) {}
  tessera_onnx::ModelProto run();

 private:
  // A graph that is being written, and the graphs around it.
  struct Scope {
    const ir::Graph* graph;
    const Scope* outer;
    std::vector<std::string> names;  // of values, by index
    std::unordered_set<std::string> taken;
  };

  void name_values(Scope& scope, const std::vector<std::string>& captured);
  bool is_taken(const Scope& scope, const std::string& name) const;
  // Whether the tensor is the outer constant of that name and storage, to which the subgraph can refer.
  bool is_outer_constant(const Scope& scope, const std::string& name, const Tensor& tensor) const;
  void write_graph(const Scope& scope, std::size_t formal_inputs, tessera_onnx::GraphProto& proto);
  void write_node(const Scope& scope, const ir::Node& node, tessera_onnx::NodeProto& proto);
  void write_attribute(const Scope& scope, const ir::Node& node, const ir::Attribute& attribute,
                       tessera_onnx::AttributeProto& proto);
  void write_subgraph(const Scope& outer, const ir::Node& node, const ir::Graph& subgraph,
                      tessera_onnx::GraphProto& proto);
  void write_tensor(const Tensor& tensor, const std::string& name, tessera_onnx::TensorProto& proto);
  void write_role(const ir::Graph& graph, ir::ValueId constant, const std::string& name,
                  tessera_onnx::GraphProto& proto);
  void write_value(const std::string& name, const ir::ValueType& type, tessera_onnx::ValueInfoProto& proto);
  void write_metadata(tessera_onnx::ModelProto& proto) const;
  void write_variables(const Scope& scope, tessera_onnx::ModelProto& proto) const;
  void write_versions(tessera_onnx::ModelProto& proto) const;

  const FileForm& form_;
  StoreData store_data_;
  std::int64_t next_suffix_ = 1;
};

// Stores the bytes of a tensor as raw_data, strings as string_data.
void store_inside(const Tensor& tensor, tessera_onnx::TensorProto& proto);
// States that the data are stored in another file.
void refer_outside(tessera_onnx::TensorProto& proto, const std::string& location, std::int64_t offset,
                   std::int64_t bytes);
// Throws Error(over_budget) for 2 GiB or more.
std::vector<std::byte> serialise(const google::protobuf::MessageLite& message);

}  // namespace tessera::io
