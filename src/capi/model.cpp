// The models of the C interface.
#include <map>
#include <memory>

#include "base/error.h"
#include "capi/handles.h"
#include "tessera/protect.h"

using namespace tessera;
using namespace tessera::capi;

namespace {

// Calls the caller's function when the last user of the bytes releases them.
std::shared_ptr<const void> owner_of(const void* bytes, void (*release)(void*), void* user) {
  if (release == nullptr) return nullptr;
  // If the control block cannot be allocated, the constructor of shared_ptr calls the deleter before it throws.
  return std::shared_ptr<const void>(bytes, [release, user](const void*) { release(user); });
}

const ValueDescription* described(const tessera_value_info* info) {
  return is_valid(info) ? &info->description : nullptr;
}

const tessera_value_info* at(const std::vector<tessera_value_info>& infos, std::size_t index) {
  return index < infos.size() ? &infos[index] : nullptr;
}

}  // namespace

tessera_model::tessera_model(Model loaded) : model(std::move(loaded)) {
  for (const ValueDescription& input : model.inputs()) inputs.push_back({tessera_value_info::kTag, input});
  for (const ValueDescription& output : model.outputs()) outputs.push_back({tessera_value_info::kTag, output});
}

tessera_status tessera_model_load(const char* path, tessera_model** model, tessera_error** error) {
  return guarded(error, [&] {
    tessera_model*& result = result_place(model, "model");
    use_key_of_environment();
    result = new tessera_model(Model::load(required(path, "path")));
  });
}

tessera_status tessera_model_load_protected(const char* path, tessera_key_source source, const char* where,
                                            tessera_model** model, tessera_error** error) {
  return guarded(error, [&] {
    tessera_model*& result = result_place(model, "model");
    KeySource key;
    switch (source) {
      case TESSERA_KEY_FILE:
        key.file = required(where, "where");
        break;
      case TESSERA_KEY_COMMAND:
        key.command = required(where, "where");
        break;
      case TESSERA_KEY_PASSWORD_FILE:
        key.password_file = required(where, "where");
        break;
      default:
        fail(ErrorKind::invalid_argument, "source is {}, which is no tessera_key_source", static_cast<int>(source));
    }
    result = new tessera_model(Model::load(required(path, "path"), {}, make_model_key(key)));
  });
}

tessera_status tessera_model_load_bytes(const void* bytes, size_t size, const char* external_data_folder,
                                        void (*release)(void* user), void* user, tessera_model** model,
                                        tessera_error** error) {
  return guarded(error, [&] {
    const std::shared_ptr<const void> owner = owner_of(bytes, release, user);  // calls `release` in any case
    tessera_model*& result = result_place(model, "model");
    std::optional<std::filesystem::path> folder;
    if (external_data_folder != nullptr) folder = external_data_folder;
    result = new tessera_model(
        Model::from_bytes({static_cast<const std::byte*>(required(bytes, "bytes")), size}, owner, folder));
  });
}

tessera_status tessera_model_with_dims(const tessera_model* model, const char* const* names, const int64_t* sizes,
                                       size_t count, tessera_model** result, tessera_error** error) {
  return guarded(error, [&] {
    tessera_model*& place = result_place(result, "result");
    const tessera_model& given = checked(model, "model", "tessera_model");
    std::map<std::string, std::int64_t> dims;
    for (std::size_t i = 0; i < count; ++i)
      dims[required(required(names, "names")[i], "a name")] = required(sizes, "sizes")[i];
    place = new tessera_model(given.model.with_dims(dims));
  });
}

void tessera_model_free(tessera_model* model) {
  free_handle(model);
}

size_t tessera_model_input_count(const tessera_model* model) {
  return is_valid(model) ? model->inputs.size() : 0;
}
size_t tessera_model_output_count(const tessera_model* model) {
  return is_valid(model) ? model->outputs.size() : 0;
}
const tessera_value_info* tessera_model_input(const tessera_model* model, size_t index) {
  return is_valid(model) ? at(model->inputs, index) : nullptr;
}
const tessera_value_info* tessera_model_output(const tessera_model* model, size_t index) {
  return is_valid(model) ? at(model->outputs, index) : nullptr;
}

const char* tessera_value_info_name(const tessera_value_info* info) {
  return described(info) != nullptr ? described(info)->name.c_str() : nullptr;
}
const char* tessera_value_info_type(const tessera_value_info* info) {
  return described(info) != nullptr ? described(info)->type.c_str() : nullptr;
}

tessera_dtype tessera_value_info_dtype(const tessera_value_info* info) {
  return described(info) != nullptr ? static_cast<tessera_dtype>(described(info)->dtype) : TESSERA_UNDEFINED;
}

int64_t tessera_value_info_rank(const tessera_value_info* info) {
  const ValueDescription* description = described(info);
  return description != nullptr && description->rank_known ? static_cast<int64_t>(description->dims.size()) : -1;
}

int64_t tessera_value_info_dim(const tessera_value_info* info, size_t index) {
  const ValueDescription* description = described(info);
  return description != nullptr && index < description->dims.size() ? description->dims[index] : -1;
}

const char* tessera_value_info_dim_name(const tessera_value_info* info, size_t index) {
  const ValueDescription* description = described(info);
  return description != nullptr && index < description->dim_names.size() ? description->dim_names[index].c_str()
                                                                         : nullptr;
}

const char* tessera_model_metadata(const tessera_model* model, tessera_metadata_field field) {
  if (!is_valid(model)) return nullptr;
  const ModelMetadata& metadata = model->model.metadata();
  switch (field) {
    case TESSERA_PRODUCER_NAME:
      return metadata.producer_name.c_str();
    case TESSERA_PRODUCER_VERSION:
      return metadata.producer_version.c_str();
    case TESSERA_DOMAIN:
      return metadata.domain.c_str();
    case TESSERA_DOC_STRING:
      return metadata.doc_string.c_str();
    case TESSERA_GRAPH_NAME:
      return metadata.graph_name.c_str();
    default:
      return nullptr;
  }
}

int64_t tessera_model_version(const tessera_model* model) {
  return is_valid(model) ? model->model.metadata().model_version : 0;
}

int64_t tessera_model_opset(const tessera_model* model, const char* domain) try {
  if (!is_valid(model) || domain == nullptr) return 0;
  const auto& opsets = model->model.metadata().opsets;
  const auto found = opsets.find(domain);
  return found != opsets.end() ? found->second : 0;
} catch (...) {
  return 0;
}

size_t tessera_model_property_count(const tessera_model* model) {
  return is_valid(model) ? model->model.metadata().properties.size() : 0;
}

const char* tessera_model_property_key(const tessera_model* model, size_t index) {
  if (index >= tessera_model_property_count(model)) return nullptr;
  return std::next(model->model.metadata().properties.begin(), static_cast<std::ptrdiff_t>(index))->first.c_str();
}

const char* tessera_model_property(const tessera_model* model, const char* key) try {
  if (!is_valid(model) || key == nullptr) return nullptr;
  const auto& properties = model->model.metadata().properties;
  const auto found = properties.find(key);
  return found != properties.end() ? found->second.c_str() : nullptr;
} catch (...) {
  return nullptr;
}
