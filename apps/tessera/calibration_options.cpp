#include "calibration_options.h"

#include "option_values.h"

namespace tessera::apps {

void add_calibration_options(CLI::App& verb, CalibrationData& data, const char* purpose) {
  verb.add_option("--data", data.path,
                  std::string(purpose) +
                      ": an .npz file with an array for each input, a folder of .npz, .npy or picture files, or a "
                      ".toml file that names one of these")
      ->type_name("FOLDER|FILE.npz|INPUTS.toml");
  verb.add_option("--labels", data.labels,
                  "The array of the .npz file that holds the labels; without it labels, label or y");
  verb.add_option("--normalise", data.normalise, "What the values of pictures become")
      ->check(CLI::IsMember({"none", "0-1", "-1-1", "imagenet"}));
  verb.add_option("--batch", data.batch, "Samples that one run takes, where the model leaves it open")
      ->capture_default_str()
      ->check(whole_number(1, 1 << 16));
  verb.add_option("--samples", data.most_samples, "Most samples to read; 0: all")
      ->capture_default_str()
      ->check(whole_number(0, 1'000'000'000));
}

void add_metric_option(CLI::App& verb, std::string& metric) {
  verb.add_option("--metric", metric,
                  "accuracy (needs labels), agreement, cosine, snr, or a command; without it accuracy if there are "
                  "labels, else agreement")
      ->type_name("NAME|COMMAND");
}

}  // namespace tessera::apps
