// Runs If, Loop, Scan and SequenceMap.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/session/program.h"

namespace tessera::runtime {

using Subprograms = std::map<std::string, std::unique_ptr<Program>, std::less<>>;

// `inputs` holds all inputs of the node, captures last (an empty Value for an absent one); `output_types`: what is
// known of its outputs before the run. Returns one value per output.
std::vector<Value> run_control_flow(const ir::Node& node, const ops::OpDef& op, std::span<const Value> inputs,
                                    std::span<const ir::ValueType> output_types, Subprograms& subprograms,
                                    RunControl& control);

}  // namespace tessera::runtime
