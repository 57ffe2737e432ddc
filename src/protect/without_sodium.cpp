// Stands in the place of this folder where libsodium was not found: protected files are refused with that reason.
#include "base/error.h"
#include "protect/licence.h"
#include "tessera/obfuscate.h"
#include "tessera/protect.h"
#include "tessera/secret_shared.h"
#include "tessera/watermark.h"

namespace tessera {
namespace {

[[noreturn]] void refuse() {
  fail(ErrorKind::unsupported,
       "this Tessera was built without libsodium, and so can neither read nor write protected models, watermarks, "
       "shares "
       "and licences");
}

class NoKey : public ModelKey {
 public:
  std::shared_ptr<const io::SectionDecoder> open(const io::Container&) const override { refuse(); }
};

}  // namespace

std::shared_ptr<const ModelKey> make_model_key(const KeySource&) {
  return std::make_shared<NoKey>();
}

ProtectReport protect_model(const std::filesystem::path&, const std::filesystem::path&, const ProtectOptions&,
                            const OptimiseOptions&) {
  refuse();
}
ProtectReport protect_model(const Model&, const std::filesystem::path&, const ProtectOptions&, const OptimiseOptions&) {
  refuse();
}
ProtectReport rewrap_model(const std::filesystem::path&, const std::filesystem::path&, const KeySource&,
                           const ProtectOptions&) {
  refuse();
}
void write_new_keys(const std::filesystem::path&) {
  refuse();
}
void check_signature(const std::filesystem::path&, const std::filesystem::path&) {
  refuse();
}
Model add_watermark(const Model&, const std::string&, const std::filesystem::path&, WatermarkReport*) {
  refuse();
}
std::vector<WatermarkFinding> find_watermarks(const Model&, std::span<const std::string>, const std::filesystem::path&,
                                              std::int64_t*) {
  refuse();
}
std::string machine_identifier() {
  refuse();
}
void write_licence(const std::filesystem::path&, const std::filesystem::path&, const std::string&) {
  refuse();
}
ops::SymbolTable protect::read_licence(std::span<const std::byte>, const std::string&) {
  refuse();
}
ShareReport share_model(const Model&, const std::filesystem::path&, const std::filesystem::path&, std::int64_t) {
  refuse();
}
TensorShares share_tensor(const Tensor&) {
  refuse();
}
Tensor combine_shares(const Tensor&, const Tensor&) {
  refuse();
}
ShareReport describe_shares(const std::filesystem::path&) {
  refuse();
}
Tensor run_secret_shared(const std::filesystem::path&, const std::string&, const Tensor&, const SharedRunOptions&,
                         SharedRunReport*) {
  refuse();
}

}  // namespace tessera
