// The step of a language model: its graph in a session, and the pages of its cache.
#pragma once

#include <memory>
#include <vector>

#include "generate/model_step.h"
#include "generate/page_pool.h"
#include "models/language/language_model.h"
#include "tessera/session.h"

namespace tessera::generate {

struct LanguageStepOptions {
  std::int64_t context = 0;       // the most tokens of a sequence; 0: the model's own, at most kUsualContext
  std::int64_t cache_tokens = 0;  // of all sequences together; 0: the context
  DType cache_type = DType::f16;  // or f32, i8
  bool exact = false;             // activations are not rounded to 8 bits
  int threads = 0;
  std::int64_t memory_limit_bytes = 0;
  std::shared_ptr<const io::PackageOrigin> package;  // that the weights are from; null: from no package
};

inline constexpr std::int64_t kUsualContext = 8192;

// A step of `rows` rows of one sequence, at the end of a context of that size, as a model with fixed sizes: for those
// who plan it and do not run it. Throws Error as LanguageStep does.
Model step_model(const models::ConfigValues& values, const models::WeightSource& weights,
                 const LanguageStepOptions& options, std::int64_t rows);

class LanguageStep final : public ModelStep {
 public:
  static constexpr std::int64_t kMostRows = 512;

  // Throws Error as read_language_config, build_language_model and Session do.
  LanguageStep(const models::ConfigValues& values, const models::WeightSource& weights,
               const LanguageStepOptions& options);

  const models::LanguageConfig& config() const { return config_; }
  std::int64_t vocabulary() const override { return vocabulary_; }
  std::int64_t context() const override { return config_.context; }
  std::int64_t most_rows() const override { return kMostRows; }
  std::int64_t open() override { return pool_.open(); }
  void close(std::int64_t sequence) override { pool_.close(sequence); }
  std::int64_t length(std::int64_t sequence) const override { return pool_.length(sequence); }
  void truncate(std::int64_t sequence, std::int64_t length) override { pool_.truncate(sequence, length); }
  void set_idle(std::int64_t sequence, bool idle) override { pool_.set_idle(sequence, idle); }
  std::span<const float> run(std::span<const StepRow> rows, std::span<const std::int64_t> wanted,
                             const RunOptions& options) override;
  MemoryUse memory() const { return session_->memory(); }

 private:
  std::span<const float> run_placed(std::span<const StepRow> rows, std::span<const std::int64_t> positions,
                                    std::span<const std::int64_t> wanted, const RunOptions& options);

  models::LanguageConfig config_;
  std::int64_t vocabulary_ = 0, columns_ = 0;
  PagePool pool_;
  std::unique_ptr<Session> session_;
  Tensor logits_;  // of the last run
};

}  // namespace tessera::generate
