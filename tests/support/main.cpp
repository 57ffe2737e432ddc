// Runs the tests of one folder.
#include <gtest/gtest.h>

#include "tessera/images.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  tessera::register_image_codecs();
  return RUN_ALL_TESTS();
}
