#include "serve/core/models/warm_up.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <random>

#include "base/error.h"
#include "base/numbers/half.h"
#include "io/file.h"
#include "serve/core/operations/log.h"
#include "serve/protocol/request_decoder.h"

namespace tessera::serve {
namespace {

constexpr std::int64_t kMostSampleFileBytes = std::int64_t{256} << 20;
constexpr int kLetters = 8;  // of a random text

using Sample = inference::ModelWarmup;

template <typename T, typename Make>
void fill(Tensor& tensor, Make&& make) {
  for (T& value : tensor.mutable_values<T>()) value = make();
}

void fill_randomly(Tensor& tensor, std::mt19937_64& random) {
  const auto unit = [&] { return std::uniform_real_distribution<float>(0, 1)(random); };
  const auto bit = [&] { return (random() & 1) != 0; };
  switch (tensor.dtype()) {
    case DType::f32:
      return fill<float>(tensor, unit);
    case DType::f64:
      return fill<double>(tensor, unit);
    case DType::f16:
      return fill<f16_t>(tensor, [&] { return base::to_f16(unit()); });
    case DType::bf16:
      return fill<bf16_t>(tensor, [&] { return base::to_bf16(unit()); });
    case DType::boolean:
      return fill<bool>(tensor, bit);
    case DType::i8:
      return fill<std::int8_t>(tensor, bit);
    case DType::i16:
      return fill<std::int16_t>(tensor, bit);
    case DType::i32:
      return fill<std::int32_t>(tensor, bit);
    case DType::i64:
      return fill<std::int64_t>(tensor, bit);
    case DType::u8:
      return fill<std::uint8_t>(tensor, bit);
    case DType::u16:
      return fill<std::uint16_t>(tensor, bit);
    case DType::u32:
      return fill<std::uint32_t>(tensor, bit);
    case DType::u64:
      return fill<std::uint64_t>(tensor, bit);
    case DType::string:
      return fill<std::string>(tensor, [&] {
        std::string text(kLetters, 'a');
        for (char& letter : text) letter = static_cast<char>('a' + random() % 26);
        return text;
      });
    default:
      fail(ErrorKind::unsupported, "there are no random elements of the type {}", name_of(tensor.dtype()));
  }
}

// The shape that the configuration or else the model says, with the batch before it.
Shape shape_of(const Sample& sample, const Sample::Input& input, const TensorInfo& info, bool batched) {
  Shape shape(input.dims().begin(), input.dims().end());
  if (shape.empty()) shape.assign(info.shape.begin() + (batched ? 1 : 0), info.shape.end());
  require(std::ranges::all_of(shape, [](std::int64_t size) { return size >= 0; }), ErrorKind::invalid_argument,
          "the warm-up '{}' does not say how large the input '{}' is: the model leaves it open", sample.name(),
          info.name);
  if (batched) shape.insert(shape.begin(), std::max<std::int64_t>(sample.batch_size(), 1));
  return shape;
}

Tensor tensor_of(const Sample& sample, const Sample::Input& input, const TensorInfo& info, bool batched,
                 const std::filesystem::path& folder) {
  const Shape shape = shape_of(sample, input, info, batched);
  if (input.has_input_data_file()) {
    io::InputFile file = io::InputFile::open_below(folder, "warmup/" + input.input_data_file());
    require(file.bytes() <= kMostSampleFileBytes, ErrorKind::over_budget, "{} has {} bytes, at most {} are read",
            file.name(), file.bytes(), kMostSampleFileBytes);
    std::string bytes(static_cast<std::size_t>(file.bytes()), '\0');
    file.read(std::as_writable_bytes(std::span(bytes)));
    return decode_elements(info.name, info.dtype, shape, bytes);
  }
  Tensor tensor(info.dtype, shape);
  if (input.has_random_data()) {
    std::mt19937_64 random(std::hash<std::string>()(sample.name() + "/" + info.name));
    fill_randomly(tensor, random);
  } else if (info.dtype != DType::string && tensor.bytes() > 0) {
    std::memset(tensor.mutable_raw(), 0, static_cast<std::size_t>(tensor.bytes()));
  }
  return tensor;
}

InferenceRequest request_of(const Sample& sample, const ServableInfo& info, const std::filesystem::path& folder) {
  InferenceRequest request;
  request.model = info.name;
  if (info.settings.config.has_sequence_batching()) request.sequence = {{0, "warm-up"}, true, true};
  const bool batched = info.settings.config.max_batch_size() > 0;
  for (const auto& [name, input] : sample.inputs()) {
    const auto found = std::ranges::find(info.inputs, name, &TensorInfo::name);
    require(found != info.inputs.end(), ErrorKind::invalid_argument,
            "the warm-up '{}' has the input '{}', which the "
            "model has not",
            sample.name(), name);
    require(input.data_type() == inference::TYPE_INVALID || type_of_config(input.data_type()) == found->dtype,
            ErrorKind::invalid_argument, "the warm-up '{}' says that '{}' is {}, but the model's is {}", sample.name(),
            name, inference::DataType_Name(input.data_type()), inference::DataType_Name(config_type(found->dtype)));
    Tensor tensor = tensor_of(sample, input, *found, batched, folder);
    request.inputs.push_back({name, tensor.dtype(), tensor.shape(), tensor, {}});
  }
  return request;
}

void answer(Servable& model, const InferenceRequest& request) {
  std::promise<Outcome> promise;
  auto call = std::make_shared<Call>();
  call->arrival_ns = Clock::steady().now_ns();
  call->request = request;
  call->done = [&promise](Outcome outcome) { promise.set_value(std::move(outcome)); };
  model.submit(call);
  const Outcome outcome = promise.get_future().get();
  if (outcome.failure) throw *outcome.failure;
}

}  // namespace

void run_warm_up(Servable& model, const std::filesystem::path& folder) {
  const ServableInfo& info = model.info();
  for (const Sample& sample : info.settings.config.model_warmup()) {
    const std::int64_t start_ns = Clock::steady().now_ns();
    try {
      const InferenceRequest request = request_of(sample, info, folder);
      for (std::uint32_t i = 0; i < std::max<std::uint32_t>(sample.count(), 1); ++i) answer(model, request);
    } catch (const Failure& failure) {
      fail(ErrorKind::invalid_argument, "the warm-up '{}' of model '{}' failed: {}", sample.name(), info.name,
           failure.what());
    }
    log(Level::info, "warm-up done",
        {{"model", info.name},
         {"version", info.version},
         {"name", sample.name()},
         {"ms", fmt::format("{:.1f}", static_cast<double>(Clock::steady().now_ns() - start_ns) * 1e-6)}});
  }
  model.reset_statistics();
}

}  // namespace tessera::serve
