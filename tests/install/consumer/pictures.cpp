// Links the image codecs and hands them in; without them the call would not link.
#include <tessera/images.h>

#include <cstdio>

int main() {
  tessera::register_image_codecs();
  std::printf("pictures\n");
}
