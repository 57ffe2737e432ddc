#include "serve/core/config/model_toml.h"

#include <array>

#include "serve/core/config/setting_values.h"

namespace tessera::serve {
namespace {

constexpr double kMostCount = 1e6;

std::uint32_t count_of(io::TomlTable& table, const char* key, std::int64_t otherwise, const std::string& where) {
  return static_cast<std::uint32_t>(
      setting_within(static_cast<double>(table.whole(key, otherwise)), kMostCount, key, where));
}

template <typename Message>
void read_shape(io::TomlTable& table, Message& message) {
  for (const double size : table.numbers("shape")) message.add_dims(static_cast<std::int64_t>(size));
}

}  // namespace

void read_sequence(io::TomlTable table, inference::ModelSequenceBatching& rules, const std::string& where) {
  using Rules = inference::ModelSequenceBatching;
  rules.set_max_sequence_idle_microseconds(static_cast<std::uint64_t>(
      setting_within(table.number("idle_ms", 1000), kMostIdleUs / 1000, "idle_ms", where) * 1000));
  const std::uint32_t slots = count_of(table, "slots", 0, where), delay_us = count_of(table, "delay_us", 0, where);
  if (slots > 0) {
    rules.mutable_oldest()->set_max_candidate_sequences(static_cast<std::int32_t>(slots));
    rules.mutable_oldest()->set_max_queue_delay_microseconds(delay_us);
  } else {
    rules.mutable_direct()->set_max_queue_delay_microseconds(delay_us);
  }
  io::TomlTable controls = table.table("control");
  constexpr std::array<std::pair<const char*, Rules::Control::Kind>, 4> kKinds{
      {{"start", Rules::Control::CONTROL_SEQUENCE_START},
       {"end", Rules::Control::CONTROL_SEQUENCE_END},
       {"ready", Rules::Control::CONTROL_SEQUENCE_READY},
       {"id", Rules::Control::CONTROL_SEQUENCE_CORRID}}};
  for (const auto& [key, kind] : kKinds) {
    const std::string input = controls.text(key, "");
    if (input.empty()) continue;
    Rules::ControlInput& control = *rules.add_control_input();
    control.set_name(input);
    control.add_control()->set_kind(kind);
  }
  io::TomlTable states = table.table("state");
  for (const std::string& input : states.keys()) {
    io::TomlTable given = states.table(input);
    Rules::State& state = *rules.add_state();
    state.set_input_name(input);
    state.set_output_name(given.text("output", given.text("name", "")));
    const std::string file = given.text("file", "");
    if (!given.has("shape") && file.empty()) continue;
    Rules::InitialState& initial = *state.add_initial_state();
    read_shape(given, initial);
    if (file.empty()) initial.set_zero_data(true);
    else initial.set_data_file(file);
  }
}

void read_warm_up(const std::string& name, io::TomlTable table, inference::ModelWarmup& warm_up,
                  const std::string& where) {
  warm_up.set_name(name);
  warm_up.set_batch_size(count_of(table, "rows", 1, where));
  warm_up.set_count(count_of(table, "count", 1, where));
  io::TomlTable inputs = table.table("inputs");
  for (const std::string& key : inputs.keys()) {
    io::TomlTable input = inputs.table(key);
    inference::ModelWarmup::Input& made = (*warm_up.mutable_inputs())[key];
    const std::string data = input.text("data", input.text("name", "zero"));
    if (data == "zero") made.set_zero_data(true);
    else if (data == "random") made.set_random_data(true);
    else made.set_input_data_file(data);
    read_shape(input, made);
  }
}

}  // namespace tessera::serve
