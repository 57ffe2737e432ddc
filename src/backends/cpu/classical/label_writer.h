// Writes the labels of a classifier: output 0, strings or integers.
#pragma once

#include <string>
#include <vector>

#include "backends/backend.h"

namespace tessera::backends::cpu {

class LabelWriter {
 public:
  explicit LabelWriter(KernelContext& context) {
    if (!context.wants_output(0)) return;
    Tensor& labels = context.output(0);
    if (labels.dtype() == DType::string) {
      texts_ = &context.texts("classlabels_strings");
      text_labels_ = labels.mutable_data<std::string>();
    } else {
      numbers_ = &context.integers("classlabels_ints");
      number_labels_ = labels.mutable_data<std::int64_t>();
    }
  }
  // Sets the label of a row. Several threads may set different rows at once.
  void set(std::int64_t row, std::size_t winner) const {
    if (texts_ != nullptr) text_labels_[row] = (*texts_)[winner];
    else if (numbers_ != nullptr) number_labels_[row] = (*numbers_)[winner];
  }

 private:
  const std::vector<std::string>* texts_ = nullptr;
  const std::vector<std::int64_t>* numbers_ = nullptr;
  std::string* text_labels_ = nullptr;
  std::int64_t* number_labels_ = nullptr;
};

}  // namespace tessera::backends::cpu
