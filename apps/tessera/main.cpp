#include <cstdio>

#include "tessera/version.h"

int main() { std::puts(TESSERA_VERSION); }
