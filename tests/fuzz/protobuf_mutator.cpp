// Length: one table a message of ONNX, each short; a mutation is found by its message.
#include "protobuf_mutator.h"

#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"
#include "ops/op_table.h"

namespace tessera::fuzz {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr std::array<std::int64_t, 26> kIntegers{0,
                                                 1,
                                                 -1,
                                                 2,
                                                 -2,
                                                 3,
                                                 4,
                                                 5,
                                                 7,
                                                 8,
                                                 16,
                                                 17,
                                                 63,
                                                 64,
                                                 127,
                                                 128,
                                                 255,
                                                 65535,
                                                 65536,
                                                 INT32_MAX,
                                                 INT32_MIN,
                                                 std::int64_t{1} << 31,
                                                 std::int64_t{1} << 32,
                                                 std::int64_t{1} << 40,
                                                 INT64_MAX,
                                                 INT64_MIN};
constexpr std::array<double, 16> kReals{0,
                                        -0.0,
                                        1,
                                        -1,
                                        0.5,
                                        2,
                                        1e-3,
                                        1e3,
                                        1e-40,
                                        3e38,
                                        -3e38,
                                        1e300,
                                        2147483648.0,
                                        std::numeric_limits<double>::infinity(),
                                        -std::numeric_limits<double>::infinity(),
                                        std::numeric_limits<double>::quiet_NaN()};
// Values of text attributes.
constexpr std::array kTexts{"",           "NOTSET",     "SAME_UPPER", "SAME_LOWER", "VALID",
                            "constant",   "reflect",    "edge",       "wrap",       "nearest",
                            "linear",     "cubic",      "bilinear",   "bicubic",    "align_corners",
                            "asymmetric", "half_pixel", "floor",      "ceil",       "tf_crop_and_resize",
                            "none",       "add",        "mul",        "min",        "max",
                            "mean",       "sum",        "forward",    "reverse",    "bidirectional",
                            "Tanh",       "Relu",       "Sigmoid",    "Affine",     "LEFT",
                            "RIGHT",      "avg",        "zeros",      "border",     "ij,jk->ik",
                            "...i->i",    "ii",         "DCR",        "CRD",        "SOFTMAX",
                            "LOGISTIC",   "SUM",        "AVERAGE",    "BRANCH_LEQ", "LEAF",
                            "RBF",        "POLY",       "TF",         "IDF",        "TFIDF",
                            "RGB",        "L2",         "tanh",       "UPPER",      "[a-z]+"};
constexpr std::array kDomains{"", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training", "com.microsoft", "other"};
constexpr int kTypeCodes = 28;  // one more than the last element type

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(engine_() % count); }
  bool one_in(std::size_t count) { return below(count) == 0; }
  template <typename List>
  const auto& pick(const List& list) {
    return list[below(std::size(list))];
  }

  std::int64_t integer(std::int64_t old) {
    switch (below(5)) {
      case 0:
        return static_cast<std::int64_t>(static_cast<std::uint64_t>(old) + 1);
      case 1:
        return static_cast<std::int64_t>(static_cast<std::uint64_t>(old) - 1);
      case 2:
        return static_cast<std::int64_t>(static_cast<std::uint64_t>(old) ^ (std::uint64_t{1} << below(64)));
      case 3:
        return static_cast<std::int64_t>(below(6));
      default:
        return pick(kIntegers);
    }
  }
  double real() { return one_in(2) ? pick(kReals) : static_cast<double>(below(2001)) / 100 - 10; }

 private:
  std::mt19937_64 engine_;
};

// A set field of a message; repeated ones count once.
struct Site {
  Message* parent;
  const FieldDescriptor* field;
};

const FieldDescriptor* field_of(const Message& message, std::string_view name) {
  return message.GetDescriptor()->FindFieldByName(std::string(name));
}
bool is_a(const Message& message, std::string_view type) {
  return message.GetDescriptor()->name() == type;
}

void set_text(Message& message, std::string_view name, std::string text) {
  message.GetReflection()->SetString(&message, field_of(message, name), std::move(text));
}
void add_text(Message& message, std::string_view name, std::string text) {
  message.GetReflection()->AddString(&message, field_of(message, name), std::move(text));
}
void set_integer(Message& message, std::string_view name, std::int64_t value) {
  const FieldDescriptor* field = field_of(message, name);
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT32)
    message.GetReflection()->SetInt32(&message, field, static_cast<std::int32_t>(value));
  else message.GetReflection()->SetInt64(&message, field, value);
}
void add_integer(Message& message, std::string_view name, std::int64_t value) {
  message.GetReflection()->AddInt64(&message, field_of(message, name), value);
}
std::int32_t get_int32(const Message& message, std::string_view name) {
  return message.GetReflection()->GetInt32(message, field_of(message, name));
}
std::string get_text(const Message& message, std::string_view name) {
  return message.GetReflection()->GetString(message, field_of(message, name));
}
Message& add_message(Message& message, std::string_view name) {
  return *message.GetReflection()->AddMessage(&message, field_of(message, name));
}
Message& sub_message(Message& message, std::string_view name) {
  return *message.GetReflection()->MutableMessage(&message, field_of(message, name));
}

// "com.microsoft::Gelu" → {"com.microsoft", "Gelu"}
std::pair<std::string, std::string> split_name(std::string_view name) {
  const std::size_t at = name.find("::");
  if (at == std::string_view::npos) return {"", std::string(name)};
  return {std::string(name.substr(0, at)), std::string(name.substr(at + 2))};
}

class Editor {
 public:
  Editor(Message& root, Random& random) : root_(root), random_(random) { scan(root_); }

  void edit() {
    constexpr std::array<void (Editor::*)(), 16> edits{
        &Editor::change,        &Editor::change,        &Editor::change,       &Editor::add,
        &Editor::remove,        &Editor::repeat,        &Editor::rename_use,   &Editor::rename_use,
        &Editor::new_tensor,    &Editor::new_tensor,    &Editor::new_node,     &Editor::new_node,
        &Editor::new_attribute, &Editor::new_attribute, &Editor::forget_types, &Editor::fix_input};
    (this->*random_.pick(edits))();
  }

  // Puts the message in the place of one of its type, or beside it.
  void graft(const Message& donor) {
    std::vector<Message*> same;
    for (Message* message : messages_) {
      if (message->GetDescriptor() == donor.GetDescriptor()) same.push_back(message);
    }
    std::vector<Site> lists;
    for (Message* message : messages_) {
      for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
        const FieldDescriptor* field = message->GetDescriptor()->field(i);
        if (field->is_repeated() && field->message_type() == donor.GetDescriptor()) lists.push_back({message, field});
      }
    }
    if (!lists.empty() && (same.empty() || random_.one_in(2))) {
      const Site& list = random_.pick(lists);
      list.parent->GetReflection()->AddMessage(list.parent, list.field)->CopyFrom(donor);
      move_element(list, list.parent->GetReflection()->FieldSize(*list.parent, list.field) - 1);
    } else if (!same.empty()) {
      random_.pick(same)->CopyFrom(donor);
    }
  }

  const Message& any_message() { return *random_.pick(messages_); }

 private:
  // After messages have gone.
  void scan_again() {
    messages_.clear();
    sites_.clear();
    value_names_.clear();
    scan(root_);
  }

  void scan(Message& message) {
    messages_.push_back(&message);
    const Reflection& reflection = *message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      sites_.push_back({&message, field});
      const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
      for (int i = 0; i < count; ++i) {
        if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
          scan(field->is_repeated() ? *reflection.MutableRepeatedMessage(&message, field, i)
                                    : *reflection.MutableMessage(&message, field));
        } else if (names_value(message, *field)) {
          value_names_.push_back(field->is_repeated() ? reflection.GetRepeatedString(message, field, i)
                                                      : reflection.GetString(message, field));
        }
      }
    }
  }

  static bool names_value(const Message& message, const FieldDescriptor& field) {
    if (is_a(message, "NodeProto") || is_a(message, "FunctionProto"))
      return field.name() == "input" || field.name() == "output";
    return field.name() == "name" && (is_a(message, "ValueInfoProto") || is_a(message, "TensorProto"));
  }

  static bool uses_value(const Message& message, const FieldDescriptor& field) {
    return is_a(message, "NodeProto") && field.name() == "input";
  }

  std::vector<Message*> all_of(std::string_view type) const {
    std::vector<Message*> found;
    for (Message* message : messages_) {
      if (is_a(*message, type)) found.push_back(message);
    }
    return found;
  }

  // --- edits of any message ---

  void change() {
    if (sites_.empty()) return;
    const Site& site = random_.pick(sites_);
    const int count = site.field->is_repeated() ? site.parent->GetReflection()->FieldSize(*site.parent, site.field) : 0;
    change(site, site.field->is_repeated() ? static_cast<int>(random_.below(static_cast<std::size_t>(count))) : -1);
  }

  // Element `index` of a repeated field, or with -1 a single one.
  void change(const Site& site, int index) {
    Message* message = site.parent;
    const FieldDescriptor* field = site.field;
    const Reflection& reflection = *message->GetReflection();
    const auto put = [&](auto set_one, auto set_element, auto value) {
      if (index < 0) (reflection.*set_one)(message, field, value);
      else (reflection.*set_element)(message, field, index, value);
    };
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return put(&Reflection::SetInt32, &Reflection::SetRepeatedInt32,
                   static_cast<std::int32_t>(
                       is_type_code(*field)
                           ? static_cast<std::int64_t>(random_.below(kTypeCodes))
                           : random_.integer(index < 0 ? reflection.GetInt32(*message, field)
                                                       : reflection.GetRepeatedInt32(*message, field, index))));
      case FieldDescriptor::CPPTYPE_INT64:
        return put(&Reflection::SetInt64, &Reflection::SetRepeatedInt64,
                   random_.integer(index < 0 ? reflection.GetInt64(*message, field)
                                             : reflection.GetRepeatedInt64(*message, field, index)));
      case FieldDescriptor::CPPTYPE_UINT64:
        return put(&Reflection::SetUInt64, &Reflection::SetRepeatedUInt64,
                   static_cast<std::uint64_t>(random_.integer(0)));
      case FieldDescriptor::CPPTYPE_FLOAT:
        return put(&Reflection::SetFloat, &Reflection::SetRepeatedFloat, as_float(random_.real()));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return put(&Reflection::SetDouble, &Reflection::SetRepeatedDouble, random_.real());
      case FieldDescriptor::CPPTYPE_STRING: {
        std::string text = new_text(
            *message, *field,
            index < 0 ? reflection.GetString(*message, field) : reflection.GetRepeatedString(*message, field, index));
        if (index < 0) reflection.SetString(message, field, std::move(text));
        else reflection.SetRepeatedString(message, field, index, std::move(text));
        return;
      }
      case FieldDescriptor::CPPTYPE_MESSAGE: {
        const std::vector<Message*> donors = all_of(field->message_type()->name());
        std::unique_ptr<Message>
            copy;  // taken first: the donor may hold the place, stand in it, or be the other of a oneof
        if (!donors.empty()) {
          copy.reset(donors[0]->New());
          copy->CopyFrom(*random_.pick(donors));
        }
        Message* place = index < 0 ? reflection.MutableMessage(message, field)
                                   : reflection.MutableRepeatedMessage(message, field, index);
        if (copy != nullptr) place->CopyFrom(*copy);
        return;
      }
      default:
        return;
    }
  }

  static float as_float(double value) {
    if (std::isnan(value)) return std::numeric_limits<float>::quiet_NaN();
    if (std::abs(value) > std::numeric_limits<float>::max())
      return std::copysign(std::numeric_limits<float>::infinity(), static_cast<float>(value < 0 ? -1 : 1));
    return static_cast<float>(value);
  }

  static bool is_type_code(const FieldDescriptor& field) {
    return field.name() == "data_type" || field.name() == "elem_type" || field.name() == "key_type" ||
           field.name() == "type";
  }

  void add() {
    Message* message = random_.pick(messages_);
    const Descriptor& type = *message->GetDescriptor();
    if (type.field_count() == 0) return;
    const FieldDescriptor* field =
        type.field(static_cast<int>(random_.below(static_cast<std::size_t>(type.field_count()))));
    const Reflection& reflection = *message->GetReflection();
    if (!field->is_repeated()) return change({message, field}, -1);
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        reflection.AddInt32(message, field, 0);
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        reflection.AddInt64(message, field, 0);
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        reflection.AddUInt64(message, field, 0);
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        reflection.AddFloat(message, field, 0);
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        reflection.AddDouble(message, field, 0);
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        reflection.AddString(message, field, "");
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        messages_.push_back(reflection.AddMessage(message, field));
        break;
      default:
        return;
    }
    const int last = reflection.FieldSize(*message, field) - 1;
    change({message, field}, last);
    move_element({message, field}, last);
  }

  void remove() {
    if (sites_.empty()) return;
    const Site& site = random_.pick(sites_);
    const Reflection& reflection = *site.parent->GetReflection();
    if (!site.field->is_repeated() || random_.one_in(8)) return reflection.ClearField(site.parent, site.field);
    move_element(site, static_cast<int>(
                           random_.below(static_cast<std::size_t>(reflection.FieldSize(*site.parent, site.field)))));
    reflection.RemoveLast(site.parent, site.field);
  }

  // Doubles an element of a repeated field, or moves it.
  void repeat() {
    std::vector<Site> lists;
    std::ranges::copy_if(sites_, std::back_inserter(lists), [](const Site& site) { return site.field->is_repeated(); });
    if (lists.empty()) return;
    const Site& list = random_.pick(lists);
    const Reflection& reflection = *list.parent->GetReflection();
    const int count = reflection.FieldSize(*list.parent, list.field);
    if (list.field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && random_.one_in(2)) {
      const Message& element = reflection.GetRepeatedMessage(
          *list.parent, list.field, static_cast<int>(random_.below(static_cast<std::size_t>(count))));
      const std::unique_ptr<Message> copy(element.New());
      copy->CopyFrom(element);
      reflection.AddMessage(list.parent, list.field)->CopyFrom(*copy);
    }
    move_element(list, static_cast<int>(random_.below(static_cast<std::size_t>(count))));
  }

  // Swaps the element with another one.
  void move_element(const Site& list, int index) {
    const Reflection& reflection = *list.parent->GetReflection();
    const auto count = static_cast<std::size_t>(reflection.FieldSize(*list.parent, list.field));
    reflection.SwapElements(list.parent, list.field, index, static_cast<int>(random_.below(count)));
  }

  // --- names and other text ---

  // A node reads another value.
  void rename_use() {
    std::vector<Site> uses;
    std::ranges::copy_if(sites_, std::back_inserter(uses),
                         [](const Site& site) { return uses_value(*site.parent, *site.field); });
    if (uses.empty()) return change();
    const Site& site = random_.pick(uses);
    const int count = site.parent->GetReflection()->FieldSize(*site.parent, site.field);
    change(site, static_cast<int>(random_.below(static_cast<std::size_t>(count))));
  }

  std::string value_name() { return value_names_.empty() || random_.one_in(12) ? "" : random_.pick(value_names_); }
  const ops::OpDef& any_op() { return *random_.pick(ops::all_ops()); }

  std::string new_text(const Message& message, const FieldDescriptor& field, const std::string& old) {
    if (field.name() == "raw_data") return new_bytes(old);
    if (random_.one_in(16)) return new_bytes(old);
    // A definition under another name mostly leaves its uses without one.
    if (names_value(message, field)) return uses_value(message, field) || random_.one_in(4) ? value_name() : old;
    if (field.name() == "op_type") return split_name(any_op().name).second;
    if (field.name() == "domain") return random_.pick(kDomains);
    if (field.name() == "dim_param") return std::string(1, static_cast<char>('N' + random_.below(3)));
    if (is_a(message, "AttributeProto") && field.name() == "name") return random_.one_in(4) ? attribute_name() : old;
    return random_.pick(kTexts);
  }

  std::string attribute_name() {
    for (int attempt = 0; attempt < 8; ++attempt) {
      const ops::OpDef& op = any_op();
      if (!op.attributes.empty()) return std::string(random_.pick(op.attributes).name);
    }
    return "axis";
  }

  std::string new_bytes(std::string bytes) {
    const std::size_t width = std::size_t{1} << random_.below(4);
    if (bytes.size() < width || random_.one_in(8)) {
      bytes.resize(random_.below(17), static_cast<char>(random_.below(256)));
      return bytes;
    }
    const std::size_t at = random_.below(bytes.size() / width) * width;
    if (random_.one_in(3)) {
      const float real = as_float(random_.real());
      std::memcpy(bytes.data() + at, &real, std::min(width, sizeof(real)));
    } else {
      const std::int64_t integer = random_.integer(static_cast<unsigned char>(bytes[at]));
      std::memcpy(bytes.data() + at, &integer, width);
    }
    return bytes;
  }

  // --- edits of ONNX's messages ---

  void new_tensor() {
    const std::vector<Message*> tensors = all_of("TensorProto");
    if (tensors.empty()) return change();
    fill_tensor(*random_.pick(tensors), random_shape());
  }

  std::vector<std::int64_t> random_shape() {
    std::vector<std::int64_t> shape(random_.below(5));
    for (std::int64_t& dim : shape) dim = random_.one_in(12) ? 0 : 1 + static_cast<std::int64_t>(random_.below(4));
    return shape;
  }

  // This shape, at times another element type, and data that fit them.
  void fill_tensor(Message& tensor, const std::vector<std::int64_t>& shape) {
    constexpr int string_code = static_cast<int>(DType::string);
    std::string name = get_text(tensor, "name");
    int type = get_int32(tensor, "data_type");
    tensor.Clear();
    set_text(tensor, "name", std::move(name));
    if (type <= 0 || type >= kDTypeCount || random_.one_in(4))
      type = 1 + static_cast<int>(random_.below(kDTypeCount - 1));
    set_integer(tensor, "data_type", type);
    std::size_t elements = 1;
    for (const std::int64_t dim : shape) {
      add_integer(tensor, "dims", dim);
      elements *= static_cast<std::size_t>(dim);
    }
    elements = std::min<std::size_t>(elements, 4096);
    if (type == string_code) {
      for (std::size_t i = 0; i < elements; ++i) add_text(tensor, "string_data", random_.pick(kTexts));
      return;
    }
    std::string bytes((elements * static_cast<std::size_t>(bits_of(static_cast<DType>(type))) + 7) / 8, '\0');
    fill(bytes, static_cast<DType>(type));
    set_text(tensor, "raw_data", std::move(bytes));
  }

  // Small numbers and edges of the range.
  void fill(std::string& bytes, DType type) {
    const auto width = static_cast<std::size_t>(std::max(bits_of(type) / 8, 1));
    const std::size_t calm = random_.below(3);  // 0: anything goes
    for (std::size_t at = 0; at + width <= bytes.size(); at += width) {
      const double real = calm > 0 ? static_cast<double>(random_.below(5)) : random_.real();
      const std::int64_t integer = calm > 0 ? static_cast<std::int64_t>(random_.below(4)) : random_.integer(1);
      const float narrow = as_float(real);
      if (type == DType::f32) std::memcpy(bytes.data() + at, &narrow, sizeof(narrow));
      else if (type == DType::f64) std::memcpy(bytes.data() + at, &real, sizeof(real));
      else std::memcpy(bytes.data() + at, &integer, std::min(width, sizeof(integer)));
    }
  }

  // An attribute that a node's operator has gets a value, or another one.
  void new_attribute() {
    const std::vector<Message*> nodes = all_of("NodeProto");
    if (nodes.empty()) return change();
    Message& node = *random_.pick(nodes);
    const std::string domain = get_text(node, "domain"), type = get_text(node, "op_type");
    const ops::OpDef* op = ops::find_op(domain.empty() ? type : domain + "::" + type);
    if (op == nullptr || op->attributes.empty()) return change();
    const ops::AttributeSpec& spec = random_.pick(op->attributes);
    const FieldDescriptor* field = field_of(node, "attribute");
    const Reflection& reflection = *node.GetReflection();
    for (int i = 0; i < reflection.FieldSize(node, field); ++i) {
      if (get_text(reflection.GetRepeatedMessage(node, field, i), "name") != spec.name) continue;
      reflection.SwapElements(&node, field, i, reflection.FieldSize(node, field) - 1);
      reflection.RemoveLast(&node, field);
    }
    scan_again();
    add_attribute(node, spec);
  }

  // What a graph declares of its values no longer holds edits back.
  void forget_types() {
    const std::vector<Message*> graphs = all_of("GraphProto");
    if (graphs.empty()) return change();
    Message& graph = *random_.pick(graphs);
    const Reflection& reflection = *graph.GetReflection();
    reflection.ClearField(&graph, field_of(graph, "value_info"));
    const FieldDescriptor* outputs = field_of(graph, "output");
    for (int i = 0; i < reflection.FieldSize(graph, outputs); ++i) {
      Message& output = *reflection.MutableRepeatedMessage(&graph, outputs, i);
      output.GetReflection()->ClearField(&output, field_of(output, "type"));
    }
  }

  // An input becomes a constant.
  void fix_input() {
    const std::vector<Message*> graphs = all_of("GraphProto");
    if (graphs.empty()) return change();
    Message& graph = *random_.pick(graphs);
    const Reflection& reflection = *graph.GetReflection();
    const FieldDescriptor* inputs = field_of(graph, "input");
    const int count = reflection.FieldSize(graph, inputs);
    if (count == 0) return;
    const int index = static_cast<int>(random_.below(static_cast<std::size_t>(count)));
    Message& input = *reflection.MutableRepeatedMessage(&graph, inputs, index);
    Message& type = sub_message(sub_message(input, "type"), "tensor_type");
    const Message& shape = sub_message(type, "shape");
    const FieldDescriptor* dims = field_of(shape, "dim");
    std::vector<std::int64_t> sizes;
    for (int i = 0; i < shape.GetReflection()->FieldSize(shape, dims); ++i) {
      const Message& dim = shape.GetReflection()->GetRepeatedMessage(shape, dims, i);
      sizes.push_back(std::clamp<std::int64_t>(dim.GetReflection()->GetInt64(dim, field_of(dim, "dim_value")), 1, 8));
    }
    Message& tensor = add_message(graph, "initializer");
    set_text(tensor, "name", get_text(input, "name"));
    set_integer(tensor, "data_type", get_int32(type, "elem_type"));
    fill_tensor(tensor, sizes);
    reflection.SwapElements(&graph, inputs, index, count - 1);
    reflection.RemoveLast(&graph, inputs);
  }

  // A node of any operator that reads values at hand, and at times an output of the graph that reads the node.
  void new_node() {
    const std::vector<Message*> graphs = all_of("GraphProto");
    if (graphs.empty()) return change();
    Message& graph = *random_.pick(graphs);
    const ops::OpDef& op = any_op();
    Message& node = add_message(graph, "node");
    const auto [domain, name] = split_name(op.name);
    set_text(node, "op_type", name);
    set_text(node, "domain", domain);
    if (!domain.empty()) import_domain(domain);
    for (const ops::Parameter& parameter : op.inputs) add_operands(node, parameter);
    const std::string prefix = "n" + std::to_string(random_.below(100'000)) + "_";
    for (std::size_t i = 0; i < op.outputs.size(); ++i) add_text(node, "output", prefix + std::to_string(i));
    for (const ops::AttributeSpec& spec : op.attributes) {
      if (spec.required || random_.one_in(3)) add_attribute(node, spec);
    }
    if (random_.one_in(3) || op.outputs.empty()) return;
    const FieldDescriptor* outputs = field_of(graph, "output");
    const auto count = static_cast<std::size_t>(graph.GetReflection()->FieldSize(graph, outputs));
    Message& output = count == 0 || random_.one_in(2) ? add_message(graph, "output")
                                                      : *graph.GetReflection()->MutableRepeatedMessage(
                                                            &graph, outputs, static_cast<int>(random_.below(count)));
    output.Clear();
    set_text(output, "name", prefix + "0");
  }

  void add_operands(Message& node, const ops::Parameter& parameter) {
    const bool absent = parameter.option == ops::optional && random_.one_in(2);
    std::size_t count = parameter.option == ops::variadic ? 1 + random_.below(3) : 1;
    for (; count > 0; --count) add_text(node, "input", absent ? "" : value_name());
  }

  void add_attribute(Message& node, const ops::AttributeSpec& spec) {
    Message& attribute = add_message(node, "attribute");
    const Reflection& reflection = *attribute.GetReflection();
    set_text(attribute, "name", std::string(spec.name));
    const std::size_t count = random_.below(5);
    switch (spec.kind) {
      case ir::AttributeKind::real:
        set_integer(attribute, "type", 1);
        return reflection.SetFloat(&attribute, field_of(attribute, "f"), as_float(random_.real()));
      case ir::AttributeKind::integer:
        set_integer(attribute, "type", 2);
        return set_integer(attribute, "i", random_.integer(1));
      case ir::AttributeKind::text:
        set_integer(attribute, "type", 3);
        return set_text(attribute, "s", random_.pick(kTexts));
      case ir::AttributeKind::tensor:
        set_integer(attribute, "type", 4);
        return fill_tensor(sub_message(attribute, "t"), random_shape());
      case ir::AttributeKind::graph: {
        set_integer(attribute, "type", 5);
        const std::vector<Message*> graphs = all_of("GraphProto");
        if (graphs.empty()) return;
        const std::unique_ptr<Message> copy(graphs[0]->New());
        copy->CopyFrom(*random_.pick(graphs));
        return sub_message(attribute, "g").CopyFrom(*copy);
      }
      case ir::AttributeKind::reals:
        set_integer(attribute, "type", 6);
        for (std::size_t i = 0; i < count; ++i)
          reflection.AddFloat(&attribute, field_of(attribute, "floats"), as_float(random_.real()));
        return;
      case ir::AttributeKind::integers:
        set_integer(attribute, "type", 7);
        for (std::size_t i = 0; i < count; ++i)
          add_integer(attribute, "ints",
                      random_.one_in(4) ? random_.integer(1) : static_cast<std::int64_t>(random_.below(4)));
        return;
      case ir::AttributeKind::texts:
        set_integer(attribute, "type", 8);
        for (std::size_t i = 0; i < count; ++i) add_text(attribute, "strings", random_.pick(kTexts));
        return;
      case ir::AttributeKind::tensors:
        set_integer(attribute, "type", 9);
        for (std::size_t i = 0; i < count; ++i) fill_tensor(add_message(attribute, "tensors"), random_shape());
        return;
      case ir::AttributeKind::type:
        set_integer(attribute, "type", 13);
        return set_integer(sub_message(sub_message(attribute, "tp"), "tensor_type"), "elem_type",
                           1 + static_cast<std::int64_t>(random_.below(26)));
    }
  }

  void import_domain(const std::string& domain) {
    if (!is_a(root_, "ModelProto")) return;
    for (Message* import : all_of("OperatorSetIdProto")) {
      if (get_text(*import, "domain") == domain) return;
    }
    Message& import = add_message(root_, "opset_import");
    set_text(import, "domain", domain);
    set_integer(import, "version", 1 + static_cast<std::int64_t>(random_.below(5)));
  }

  Message& root_;
  Random& random_;
  std::vector<Message*> messages_;
  std::vector<Site> sites_;
  std::vector<std::string> value_names_;
};

}  // namespace

struct ProtobufMutator::Schema {
  google::protobuf::DescriptorPool pool;
  google::protobuf::DynamicMessageFactory factory;
  const google::protobuf::FileDescriptor* file = nullptr;

  // Null when the bytes are no such message.
  std::unique_ptr<Message> parse(std::string_view type, std::string_view bytes) {
    const Descriptor* descriptor = file->FindMessageTypeByName(std::string(type));
    std::unique_ptr<Message> message(factory.GetPrototype(descriptor)->New());
    if (!message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return nullptr;
    return message;
  }
};

ProtobufMutator::ProtobufMutator(const std::string& schema) : schema_(std::make_unique<Schema>()) {
  std::ifstream stream(schema, std::ios::binary);
  google::protobuf::FileDescriptorSet files;
  const bool read = stream && files.ParseFromIstream(&stream) && files.file_size() == 1;
  if (read) schema_->file = schema_->pool.BuildFile(files.file(0));
  require(schema_->file != nullptr, ErrorKind::not_found, "no schema of messages in '{}'", schema);
}

ProtobufMutator::~ProtobufMutator() = default;

std::string ProtobufMutator::mutate(std::string_view type, std::string_view bytes, std::uint64_t seed) const {
  const std::unique_ptr<Message> message = schema_->parse(type, bytes);
  if (message == nullptr) return "";
  Random random(seed);
  do Editor(*message, random).edit();
  while (random.one_in(2));
  return message->SerializeAsString();
}

std::string ProtobufMutator::cross_over(std::string_view type, std::string_view bytes, std::string_view other,
                                        std::uint64_t seed) const {
  const std::unique_ptr<Message> message = schema_->parse(type, bytes), donor = schema_->parse(type, other);
  if (message == nullptr || donor == nullptr) return "";
  Random random(seed);
  const Message& part = Editor(*donor, random).any_message();
  Editor(*message, random).graft(part);
  return message->SerializeAsString();
}

}  // namespace tessera::fuzz
