// The program behind `tessera serve`.
#include "serve_main.h"

int main(int argc, char** argv) {
  return tessera::apps::serve_main(argc, argv);
}
