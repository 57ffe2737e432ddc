// What pruning did, as text, JSON and a page.
#pragma once

#include <optional>
#include <string>

#include "tessera/prune.h"

namespace tessera::compress {

// `path`: of the file that was written, or empty.
std::string prune_text(const PruneReport& report, const std::string& path);
// `report`: nothing where no pruning was asked for.
std::string prune_json(const std::optional<PruneReport>& report, const std::string& path,
                       const std::optional<PruneSensitivity>& sensitivity);
std::string prune_html(const std::optional<PruneReport>& report, const std::string& model, const std::string& path,
                       const std::optional<PruneSensitivity>& sensitivity);

// A row for each layer, a column for each sparsity: how much the metric drops.
std::string sensitivity_text(const PruneSensitivity& sensitivity);

}  // namespace tessera::compress
