#include "base/edit_distance.h"

#include <gtest/gtest.h>

namespace tessera {
namespace edit_distance_test {

TEST(EditDistance, CountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(base::edit_distance("softmax", "softmax"), 0U);
  EXPECT_EQ(base::edit_distance("softmx", "softmax"), 1U);
  EXPECT_EQ(base::edit_distance("softtmax", "softmax"), 1U);
  EXPECT_EQ(base::edit_distance("softmux", "softmax"), 1U);
  EXPECT_EQ(base::edit_distance("sotfmax", "softmax"), 1U);
  EXPECT_EQ(base::edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(base::edit_distance("", "abc"), 3U);
}

}  // namespace edit_distance_test
}  // namespace tessera
