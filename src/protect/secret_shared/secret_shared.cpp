#include "tessera/secret_shared.h"

#include <sodium.h>

#include <chrono>
#include <cmath>

#include "base/error.h"
#include "io/file.h"
#include "io/output_file.h"
#include "protect/secret_shared/peer_connection.h"
#include "protect/secret_shared/share_file.h"

namespace tessera {
namespace {

using protect::ShareFile;
using protect::Word;
using protect::Words;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void write_share(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  io::OutputFile file(path);
  file.write(bytes);
  file.commit();
  std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

ShareReport report_of(const protect::SharedProgram& program) {
  return {program.input, program.output, program.input_shape, program.output_shape, 0, 0, 0};
}

Words words_of(const Tensor& share, const protect::SharedProgram& program) {
  require(
      share.dtype() == DType::u64 && share.shape() == program.input_shape, ErrorKind::invalid_argument,
      "the share of input '{}' is {} {}, expected uint64 {}; 'tessera protect INPUTS.npz --secret-shares A B' makes "
      "it",
      program.input, name_of(share.dtype()), to_string(share.shape()), to_string(program.input_shape));
  return {share.values<Word>().begin(), share.values<Word>().end()};
}

protect::SecureChannel meet(const ShareFile& share, const std::string& peer, double timeout_s) {
  bool is_taken = false;
  try {
    protect::PeerSocket socket = share.party == 0 ? protect::PeerSocket::listen_at(peer, timeout_s, is_taken)
                                                  : protect::PeerSocket::connect_to(peer, timeout_s);
    return {std::move(socket), {share.party, share.pair, share.message_key.bytes(), share.used}};
  } catch (Error& error) {
    if (is_taken) error.add_context("another process listens at " + peer);
    throw;
  }
}

}  // namespace

ShareReport share_model(const Model& model, const std::filesystem::path& first, const std::filesystem::path& second,
                        std::int64_t runs) {
  io::check_output(first);
  io::check_output(second);
  require(runs >= 1, ErrorKind::invalid_argument, "{} runs, expected 1 or more", runs);
  const protect::SharedNet net = protect::compile_for_shares(model.graph());
  const protect::DealtFiles files = protect::deal_files(net, static_cast<std::uint64_t>(runs));
  write_share(first, files.first);
  write_share(second, files.second);
  ShareReport report = report_of(net.program);
  report.runs = runs;
  report.first_bytes = static_cast<std::int64_t>(files.first.size());
  report.second_bytes = static_cast<std::int64_t>(files.second.size());
  return report;
}

TensorShares share_tensor(const Tensor& tensor) {
  require(tensor.dtype() == DType::f32, ErrorKind::invalid_argument,
          "a tensor of {} cannot be shared, expected float32", name_of(tensor.dtype()));
  TensorShares shares{Tensor(DType::u64, tensor.shape()), Tensor(DType::u64, tensor.shape())};
  randombytes_buf(shares.first.mutable_raw(), static_cast<std::size_t>(shares.first.bytes()));
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const double value = static_cast<double>(tensor.data<float>()[i]);
    require(std::abs(value) <= kMostShared, ErrorKind::invalid_argument,
            "element {} is {}, expected magnitudes up to {}", i, value, kMostShared);
    shares.second.mutable_data<Word>()[i] =
        protect::to_fixed_point(value, kSharedFractionBits) - shares.first.data<Word>()[i];
  }
  return shares;
}

Tensor combine_shares(const Tensor& first, const Tensor& second) {
  require(first.dtype() == DType::u64 && second.dtype() == DType::u64 && first.shape() == second.shape(),
          ErrorKind::invalid_argument, "shares of {} {} and {} {}, expected uint64 of one shape",
          name_of(first.dtype()), to_string(first.shape()), name_of(second.dtype()), to_string(second.shape()));
  Tensor sum(DType::f32, first.shape());
  for (std::int64_t i = 0; i < sum.elements(); ++i)
    sum.mutable_data<float>()[i] =
        static_cast<float>(protect::from_fixed_point(first.data<Word>()[i] + second.data<Word>()[i]));
  return sum;
}

ShareReport describe_shares(const std::filesystem::path& path) {
  const protect::LockedShareFile file(path);
  ShareReport report = report_of(file.content().program);
  report.runs = static_cast<std::int64_t>(file.content().runs - file.content().used);
  return report;
}

Tensor run_secret_shared(const std::filesystem::path& path, const std::string& peer, const Tensor& input,
                         const SharedRunOptions& options, SharedRunReport* report) {
  protect::LockedShareFile file(path);
  const ShareFile& content = file.content();
  const Words share = words_of(input, content.program);
  const auto is_left = [&](std::uint64_t run) {
    require(
        run < content.runs, ErrorKind::invalid_argument,
        "the random numbers of all {} runs are used up, and using them again would give secrets away; make new shares",
        content.runs);
  };
  is_left(content.used);
  const auto begin = std::chrono::steady_clock::now();
  protect::SecureChannel channel = meet(content, peer, options.timeout_s);
  const auto met = std::chrono::steady_clock::now();
  const std::uint64_t run = std::max(content.used, channel.peers_next_run());
  is_left(run);
  file.use(run);
  const Words result =
      protect::compute_shared(content.program, content.party, content.weights, share, content.material(run), channel);
  if (report != nullptr)
    *report = {content.program.input,
               content.program.output,
               channel.rounds(),
               channel.bytes_sent(),
               static_cast<std::int64_t>(content.runs - content.used),
               std::chrono::duration<double>(met - begin).count(),
               seconds_since(met)};
  return Tensor::from<Word>(content.program.output_shape, std::span<const Word>(result));
}

}  // namespace tessera
