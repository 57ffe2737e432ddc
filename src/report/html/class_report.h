// Shows an evaluation's results by class.
#pragma once

#include <string>

#include "tessera/train.h"

namespace tessera::report {

// "test accuracy 0.9750, f1 0.9712, loss 0.0813".
std::string evaluation_text(const EvaluationReport& report);

// A table with precision, recall, F1 and support of each class, and the confusion matrix if there are at most 20
// classes; "" if the report has no classes, or more than 100.
std::string class_report_text(const EvaluationReport& report);

// The contents of class_report_text() as a section of a page.
std::string class_report_section(const EvaluationReport& report);

}  // namespace tessera::report
