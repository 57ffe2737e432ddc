// An arbiter with a job whose function runs.
#include <tessera/share.h>

#include <cstdio>

int main() {
  tessera::Arbiter arbiter;
  tessera::Job job = arbiter.add_job({.name = "work"});
  job.run("print", [&] { std::printf("%s\n", arbiter.policy().c_str()); });
}
