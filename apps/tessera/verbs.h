// The verbs of the command line, one file each. Each adds its subcommand; its callback does the work.
#pragma once

#include <CLI/CLI.hpp>

namespace tessera::apps {

void add_run(CLI::App& app);
void add_bench(CLI::App& app);
void add_generate(CLI::App& app);
void add_chat(CLI::App& app);
void add_info(CLI::App& app);
void add_check(CLI::App& app);
void add_new(CLI::App& app);
void add_optimize(CLI::App& app);
void add_calibrate(CLI::App& app);
void add_explain(CLI::App& app);
void add_diff(CLI::App& app);
void add_train(CLI::App& app);
void add_eval(CLI::App& app);
void add_prune(CLI::App& app);
void add_compress(CLI::App& app);
void add_quantize(CLI::App& app);
void add_protect(CLI::App& app);
void add_share(CLI::App& app);
void add_scale(CLI::App& app);
void add_tokenize(CLI::App& app);
void add_serve(CLI::App& app);
void add_completion(CLI::App& app);  // after all others, because it describes them
void add_manual(CLI::App& app);

}  // namespace tessera::apps
