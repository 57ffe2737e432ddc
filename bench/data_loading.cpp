// Reads every picture of a folder of classes once, through the loader of training, and prints samples per second.
//
//   build/release/bench/bench_data_loading FOLDER [BATCH] [WORKERS]
//
// bench/data_loading.py compares it with torch's DataLoader.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>

#include "tessera/error.h"
#include "tessera/images.h"
#include "train/data/images/image_folder.h"
#include "train/data/loader.h"

int main(int argc, char** argv) try {
  using namespace tessera::train;
  if (argc < 2) {
    fmt::print(stderr, "usage: bench_data_loading FOLDER [BATCH] [WORKERS]\n");
    return 2;
  }
  tessera::register_image_codecs();
  LoaderOptions options;
  options.batch = argc > 2 ? std::atoll(argv[2]) : 64;
  options.workers = argc > 3 ? std::atoi(argv[3]) : 2;
  options.drop_last = false;
  const auto begin = std::chrono::steady_clock::now();
  Loader loader(open_image_folder(argv[1], {}), {}, options);
  std::int64_t samples = 0, labels = 0;
  double brightness = 0;  // of one pixel a batch, so that somebody looks at the data
  for (bool ends = false; !ends;) {
    const Batch batch = loader.next();
    ends = batch.ends_epoch;
    samples += batch.samples;
    brightness += static_cast<double>(batch.fields.at("x").data<float>()[0]);
    labels += batch.fields.at("y").data<std::int64_t>()[0];
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const LoaderReport report = loader.report();
  fmt::print("{{\"samples\":{},\"skipped\":{},\"seconds\":{:.3f},\"samples_per_s\":{:.0f},\"check\":{:.3f}}}\n",
             samples, report.skipped, seconds, static_cast<double>(samples) / seconds,
             brightness + static_cast<double>(labels));
} catch (const tessera::Error& error) {
  fmt::print(stderr, "bench_data_loading: {}\n", error.what());
  return 1;
}
