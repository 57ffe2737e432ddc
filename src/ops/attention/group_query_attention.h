// GroupQueryAttention of com.microsoft: attention of grouped heads (arXiv:2305.13245) over a cache, as generating
// models use it. Schema: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef group_query_attention;

enum GroupQueryInput : std::size_t {
  kGroupQuery,
  kGroupKey,
  kGroupValue,
  kGroupPastKey,
  kGroupPastValue,
  kGroupLengths,
  kGroupTotal,
  kGroupCosines,
  kGroupSines,
  kGroupPositionIds,
  kGroupAttentionBias,
  kGroupHeadSink,
  kGroupKeyScale,
  kGroupValueScale,
  kGroupQueryNorm,
  kGroupKeyNorm,
};

}  // namespace tessera::ops
