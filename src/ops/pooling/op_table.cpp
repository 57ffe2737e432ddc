#include "ops/pooling/op_table.h"

#include "ops/pooling/max_pool_gradient.h"
#include "ops/pooling/pooling.h"
#include "ops/pooling/pooling_gradient.h"

namespace tessera::ops {

std::span<const OpDef* const> pooling_ops() {
  static constexpr const OpDef* table[] = {
      // max_pool_gradient
      &max_pool_gradient,
      // pooling
      &average_pool,
      &max_pool,
      &lp_pool,
      &max_unpool,
      &global_average_pool,
      &global_max_pool,
      &global_lp_pool,
      // pooling_gradient
      &average_pool_gradient,
  };
  return table;
}

}  // namespace tessera::ops
