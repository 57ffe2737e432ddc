#include "backends/device_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/backend_table.h"
#include "backends/device_properties.h"
#include "support/expect_error.h"

namespace tessera::test::device_kind_test {
namespace {

using backends::Device;
using backends::KindOfDevices;
using testing::ElementsAre;

class Card final : public Device {
 public:
  Card(std::string name, int ordinal) : name_(std::move(name)) {
    properties_.ordinal = ordinal;
    properties_.uuid = "GPU-0000-" + std::to_string(ordinal);
  }
  std::string_view name() const override { return name_; }
  const backends::DeviceProperties& properties() const override { return properties_; }
  std::span<const backends::KernelEntry* const> kernels_for(std::string_view) const override { return {}; }

 private:
  std::string name_;
  backends::DeviceProperties properties_;
};

const Card first("card", 0), second("card:1", 1), host("host", 0);

constexpr KindOfDevices kKinds[] = {
    {.name = "host", .form = "host", .enumerate = [] { return std::vector<const Device*>{&host}; }},
    {.name = "card", .form = "card[:N]", .enumerate = [] { return std::vector<const Device*>{&first, &second}; }},
    {.name = "other", .form = "other[:N]", .enumerate = [] { return std::vector<const Device*>(); }},
    {.name = "any",
     .form = "any:X",
     .enumerate = [] { return std::vector<const Device*>(); },
     .find = [](std::string_view name) -> const Device& { return name == "any:2" ? second : host; }}};

TEST(KindOfDevices, DevicesAreNamedByKindNumberAndUuid) {
  EXPECT_EQ(&backends::find_device(kKinds, "host"), &host);
  EXPECT_EQ(&backends::find_device(kKinds, "card"), &first);
  EXPECT_EQ(&backends::find_device(kKinds, "card:0"), &first);
  EXPECT_EQ(&backends::find_device(kKinds, "card:1"), &second);
  EXPECT_EQ(&backends::find_device(kKinds, "GPU-0000-1"), &second);
  EXPECT_EQ(&backends::find_device(kKinds, "any:2"), &second);
  EXPECT_THAT(backends::devices_of(kKinds), ElementsAre(&host, &first, &second));
}

TEST(KindOfDevices, NamesOfNoDeviceSayWhatThereIs) {
  const auto refused = [](std::string_view name, const std::string& message) {
    expect_error(ErrorKind::invalid_argument, message, [&] { backends::find_device(kKinds, name); });
  };
  refused("tpu", "there is no device 'tpu'; devices: host, card[:N], other[:N], any:X");
  refused("", "there is no device ''; devices: host, card[:N], other[:N], any:X");
  refused("cards", "there is no device 'cards'; devices: host, card[:N], other[:N], any:X");
  refused("GPU-0000-2", "there is no device 'GPU-0000-2'; devices: host, card[:N], other[:N], any:X");
  refused("card:2", "there is no device 'card:2': this machine has 2 of kind 'card', numbered from 0");
  for (const char* name : {"card:", "card:x", "card:-1", "card:1x", "card:99999999999999999999"})
    refused(name, std::string("device '") + name + "': '" + (name + 5) +
                      "' is not the number of a device; expected card:N with N from 0 to 1");
  refused("other", "device 'other': this machine has none of kind 'other'");
  refused("other:0", "device 'other:0': this machine has none of kind 'other'");
}

TEST(KindOfDevices, SimulatedDevicesHaveUuids) {
  const Device& device = backends::find_device("simulated:l4,number=1234");
  const std::string& uuid = device.properties().uuid;
  EXPECT_EQ(uuid.rfind("SIM-", 0), 0u) << uuid;
  EXPECT_EQ(&backends::find_device(uuid), &device);
  EXPECT_NE(backends::find_device("simulated:l4,number=1235").properties().uuid, uuid);
  EXPECT_THAT(backends::all_devices(), testing::Contains(&device));
}

}  // namespace
}  // namespace tessera::test::device_kind_test
