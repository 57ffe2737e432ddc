// The headers that most rooms share, for cold builds (TESSERA_UNITY): parsed once instead of in each file. Builds
// without it, in which a header changes often, leave them out; those with TESSERA_PCH=OFF show a header that is not
// self-contained.
#pragma once
#include "backends/backend.h"
#include "base/error.h"
#include "base/numbers/checked.h"
#include "ir/graph.h"
#include "ops/core/builder.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/op.h"
#include "ops/core/shape_arguments.h"
#include "pch.h"
