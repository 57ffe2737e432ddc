// Reports on a pruning, as text, JSON and a page.
#pragma once

#include <optional>
#include <string>

#include "tessera/prune.h"

namespace tessera::compress {

// `path` is that of the file that was written, or empty.
std::string prune_text(const PruneReport& report, const std::string& path);
// `report` is nothing if no pruning was requested.
std::string prune_json(const std::optional<PruneReport>& report, const std::string& path,
                       const std::optional<PruneSensitivity>& sensitivity);
std::string prune_html(const std::optional<PruneReport>& report, const std::string& model, const std::string& path,
                       const std::optional<PruneSensitivity>& sensitivity);

// A table with a row per layer and a column per sparsity: by how much the metric drops.
std::string sensitivity_text(const PruneSensitivity& sensitivity);

}  // namespace tessera::compress
