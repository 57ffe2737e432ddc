#include "generate/language_step.h"

#include <algorithm>
#include <bit>
#include <map>

#include "base/error.h"
#include "base/numbers/checked.h"

namespace tessera::generate {
namespace {

using models::kCachePageRows;

// Plans for each power of two of rows, wanted rows and sequences that a server meets.
constexpr int kMostPlans = 64;

std::int64_t context_of(const models::ConfigValues& values, const LanguageStepOptions& options) {
  if (options.context > 0) return options.context;
  return std::min(values.integer("context_length").value_or(0), kUsualContext);
}

std::int64_t pages_of(const LanguageStepOptions& options, std::int64_t context) {
  const std::int64_t tokens = options.cache_tokens > 0 ? options.cache_tokens : context;
  return base::ceil_divide(tokens, kCachePageRows);
}

std::int64_t padded(std::size_t count) {
  return static_cast<std::int64_t>(std::bit_ceil(std::max<std::size_t>(count, 1)));
}

Tensor filled(Shape shape, std::int64_t value) {
  Tensor tensor(DType::i64, std::move(shape));
  std::ranges::fill(tensor.mutable_values<std::int64_t>(), value);
  return tensor;
}

Model symbolic_step(const models::LanguageConfig& config, const models::WeightSource& weights,
                    const LanguageStepOptions& options) {
  const models::LanguageBuildOptions build{pages_of(options, config.context), options.cache_type, options.exact};
  return Model(std::make_shared<const ir::Graph>(models::build_language_model(config, weights, build)),
               options.package);
}

}  // namespace

Model step_model(const models::ConfigValues& values, const models::WeightSource& weights,
                 const LanguageStepOptions& options, std::int64_t rows) {
  const models::LanguageConfig config = models::read_language_config(values, weights, context_of(values, options));
  return symbolic_step(config, weights, options)
      .with_dims({{"rows", padded(static_cast<std::size_t>(rows))},
                  {"sequences", 1},
                  {"columns", base::ceil_divide(config.context, kCachePageRows)},
                  {"wanted", 1}});
}

LanguageStep::LanguageStep(const models::ConfigValues& values, const models::WeightSource& weights,
                           const LanguageStepOptions& options)
    : config_(models::read_language_config(values, weights, context_of(values, options))),
      vocabulary_(models::vocabulary_of(config_, weights)),
      columns_(base::ceil_divide(config_.context, kCachePageRows)),
      pool_(pages_of(options, config_.context), kCachePageRows, columns_) {
  SessionOptions session;
  session.threads = options.threads;
  session.memory_limit_bytes = options.memory_limit_bytes;
  session.max_cached_plans = kMostPlans;
  session_ = std::make_unique<Session>(symbolic_step(config_, weights, options), session);
}

std::span<const float> LanguageStep::run(std::span<const StepRow> rows, std::span<const std::int64_t> wanted,
                                         const RunOptions& options) {
  require(!rows.empty() && static_cast<std::int64_t>(rows.size()) <= kMostRows, ErrorKind::invalid_argument,
          "a step of {} rows, expected 1 to {}", rows.size(), kMostRows);
  for (const std::int64_t row : wanted)
    require(row >= 0 && row < static_cast<std::int64_t>(rows.size()), ErrorKind::invalid_argument,
            "row {} is wanted of a step of {}", row, rows.size());
  std::map<std::int64_t, std::int64_t> before;  // lengths of the sequences, which stay if the step fails
  for (const StepRow& row : rows) {
    require(row.token >= 0 && row.token < vocabulary_, ErrorKind::invalid_argument,
            "token {} is none of the {} of the vocabulary", row.token, vocabulary_);
    before.try_emplace(row.sequence, pool_.length(row.sequence));
  }
  try {
    std::vector<std::int64_t> positions;
    for (const StepRow& row : rows) {
      require(pool_.length(row.sequence) < config_.context, ErrorKind::invalid_argument,
              "a sequence has {} tokens, which is the whole context", config_.context);
      positions.push_back(pool_.append(row.sequence));
    }
    return run_placed(rows, positions, wanted, options);
  } catch (...) {
    for (const auto& [sequence, length] : before) pool_.truncate(sequence, length);
    throw;
  }
}

// Rows, sequences and wanted rows are padded to powers of two, so that few plans serve all steps. Padding rows belong
// to no sequence.
std::span<const float> LanguageStep::run_placed(std::span<const StepRow> rows, std::span<const std::int64_t> positions,
                                                std::span<const std::int64_t> wanted, const RunOptions& options) {
  const std::int64_t count = padded(rows.size());
  std::map<std::int64_t, std::int64_t> table_rows;
  for (const StepRow& row : rows) table_rows.try_emplace(row.sequence, static_cast<std::int64_t>(table_rows.size()));
  Tensor ids = filled({count}, 0), places = filled({count}, 0), sequence = filled({count}, -1),
         pages = filled({padded(table_rows.size()), columns_}, -1), asked = filled({padded(wanted.size())}, 0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ids.mutable_data<std::int64_t>()[i] = rows[i].token;
    places.mutable_data<std::int64_t>()[i] = positions[i];
    sequence.mutable_data<std::int64_t>()[i] = table_rows.at(rows[i].sequence);
  }
  for (const auto& [each, row] : table_rows)
    std::ranges::copy(pool_.pages(each), pages.mutable_data<std::int64_t>() + row * columns_);
  std::ranges::copy(wanted, asked.mutable_data<std::int64_t>());
  NamedValues inputs;
  inputs.emplace("ids", std::move(ids));
  inputs.emplace("positions", std::move(places));
  inputs.emplace("sequence", std::move(sequence));
  inputs.emplace("pages", std::move(pages));
  inputs.emplace("wanted", std::move(asked));
  logits_ = session_->run(inputs, options).at("logits").tensor();
  return logits_.values<float>().first(wanted.size() * static_cast<std::size_t>(vocabulary_));
}

}  // namespace tessera::generate
