// Writes the packages of language models.
#include <algorithm>
#include <set>

#include "base/cpu_info.h"
#include "base/error.h"
#include "base/no_memory.h"
#include "generate/language_source.h"
#include "generate/language_step.h"
#include "generate/language_text.h"
#include "io/output_file.h"
#include "runtime/session/environment.h"
#include "tessera/generate.h"
#include "tessera/version.h"

namespace tessera::generate {
namespace {

constexpr std::int64_t kPackedContext = 32;  // of the step whose weights are packed: no packing depends on it

// Notes which weights are asked for, in the order in which that happens first.
class NotedWeights final : public models::WeightSource {
 public:
  explicit NotedWeights(const models::WeightSource& weights) : weights_(weights) {}

  std::optional<models::LanguageWeight> find(std::string_view name) const override {
    std::optional<models::LanguageWeight> found = weights_.find(name);
    if (found && known_.emplace(name).second) names_.emplace_back(name);
    return found;
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  const models::WeightSource& weights_;
  mutable std::set<std::string, std::less<>> known_;
  mutable std::vector<std::string> names_;
};

// The metadata of a GGUF file as one without tensors, and without keys about parts: a package is whole.
std::string gguf_metadata(const io::GgufFile& file) {
  std::string text = "GGUF";
  const auto number = [&text](auto value) { text.append(reinterpret_cast<const char*>(&value), sizeof value); };
  const auto is_kept = [](const io::GgufValue& value) { return !value.key().starts_with("split."); };
  number(std::uint32_t{3});
  number(std::uint64_t{0});
  number(static_cast<std::uint64_t>(std::ranges::count_if(file.metadata(), is_kept)));
  for (const io::GgufValue& value : file.metadata()) {
    if (!is_kept(value)) continue;
    number(static_cast<std::uint64_t>(value.key().size()));
    text += value.key();
    number(static_cast<std::uint32_t>(value.type()));
    text.append(reinterpret_cast<const char*>(value.bytes().data()), value.bytes().size());
  }
  return text;
}

// The texts of a model's files, and what says them.
struct Texts {
  io::LanguageForm form;
  std::map<std::string, std::string, std::less<>> texts;
};

Texts texts_of(const LanguageFiles& files) {
  if (files.gguf) return {io::LanguageForm::gguf, {{std::string(io::kGgufMetadata), gguf_metadata(*files.gguf)}}};
  if (files.package) {
    Texts result{files.package->content.form, {}};
    for (const auto& [name, text] : files.package->content.texts) result.texts.emplace(name, text);
    return result;
  }
  Texts result{io::LanguageForm::folder, {}};
  const FolderTexts folder(files.folder);
  for (const std::string_view name : FolderTexts::names()) {
    if (folder.has(name)) result.texts.emplace(name, folder.read(name));
  }
  return result;
}

std::vector<Value> zeros_for(const Model& step) {
  std::vector<Value> values;
  for (const ValueDescription& input : step.inputs()) {
    Tensor zeros(input.dtype, input.dims);
    std::ranges::fill(zeros.mutable_values<std::int64_t>(), 0);
    values.emplace_back(std::move(zeros));
  }
  return values;
}

// The weights that the step asks for.
std::vector<io::LanguageTensor> weights_of(const LanguageSource& source, std::int64_t context) {
  const NotedWeights noted(*source.weights);
  // Some divisors of frequencies are for long contexts alone.
  models::read_language_config(*source.values, noted);
  const models::LanguageConfig config = models::read_language_config(*source.values, noted, context);
  models::build_language_model(config, noted, {.pages = 1});
  std::vector<io::LanguageTensor> tensors;
  for (const std::string& name : noted.names()) {
    const models::LanguageWeight weight = *source.weights->find(name);
    if (source.package != nullptr) source.package->stream->need(weight.tensor.raw(), weight.tensor.bytes());
    tensors.push_back({name, weight.format, weight.rows, weight.columns, weight.tensor});
  }
  return tensors;
}

LanguagePackageReport write(const LanguageFiles& files, const std::filesystem::path& to) {
  const LanguageSource source = source_of(files);
  const Texts texts = texts_of(files);
  LanguageStepOptions sizes;
  sizes.context = sizes.cache_tokens =
      std::min(kPackedContext, source.values->integer("context_length").value_or(kPackedContext));
  sizes.package = source.package;
  io::LanguageContent content{texts.form, {}, weights_of(source, sizes.context)};
  for (const auto& [name, text] : texts.texts) content.texts.emplace(name, text);
  // Kernels pack while a plan is made. The step asks for other tensors of the same weights, which have their storage.
  const Model step = step_model(*source.values, *source.weights, sizes, 1);
  const SessionOptions options;
  const runtime::ProgramEnvironment environment = runtime::make_environment(step, options);
  const std::unique_ptr<runtime::Program> program = runtime::make_program(step, options, environment);
  const std::shared_ptr<runtime::PreparedPlan> prepared = program->plan_for(zeros_for(step));
  const auto held = environment.weights->packings();
  std::vector<io::Packing> packings;
  for (const auto& each : held)
    packings.push_back(
        {each.weights, each.name, {each.packed->data.get(), static_cast<std::size_t>(each.packed->bytes)}});
  const io::PackageInfo info{TESSERA_VERSION, options.device, base::isa_name(base::cpu_info()), "f32", {}, {}, false};
  const auto encoder = source.package != nullptr && source.package->decoder != nullptr
                           ? source.package->decoder->encoder()
                           : std::shared_ptr<const io::SectionEncoder>();
  const io::WrittenPackage written = io::write_language_package(to, content, info, packings, encoder.get());
  LanguagePackageReport report{written.file_bytes, static_cast<std::int64_t>(content.tensors.size()), 0,
                               written.packings, written.packed_bytes};
  for (const io::LanguageTensor& tensor : content.tensors) report.weight_bytes += tensor.bytes.bytes();
  return report;
}

}  // namespace
}  // namespace tessera::generate

namespace tessera {

LanguagePackageReport optimise_language_model(const std::filesystem::path& model, const std::filesystem::path& to) {
  require(to.extension() == ".tsr", ErrorKind::invalid_argument,
          "a language model is written as a package: give '{}' a name that ends in .tsr", to.string());
  io::check_output(to);
  return base::with_memory_errors([&] {
    const generate::LanguageFiles files = generate::open_language_files(model);
    try {
      generate::text_of(files);  // a package without a tokenizer would be found out by its user
      return generate::write(files, to);
    } catch (Error& error) {
      if (error.context().empty()) error.add_context("file " + model.string());
      throw;
    }
  });
}

}  // namespace tessera
