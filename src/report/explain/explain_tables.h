// The tables of an explanation's page, each as a card.
#pragma once

#include <string>

#include "report/explain/explain.h"

namespace tessera::report {

// Time, arithmetic and bytes of each type of operator, and of all together.
std::string totals_section(const Explanation& explanation);
// Every operator that does something, in a section that is collapsed at first.
std::string operators_section(const Explanation& explanation);
// The model as stored in its file and as it runs, and the purpose of each pass that changed it.
std::string optimiser_section(const Explanation& explanation);
// The devices side by side, with bars.
std::string comparison_section(const Explanation& explanation, const std::string& legend);
std::string batch_section(const cost::BatchChoice& choice);

}  // namespace tessera::report
