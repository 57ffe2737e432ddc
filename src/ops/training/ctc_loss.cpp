#include "ops/training/ctc_loss.h"

#include "base/error.h"
#include "ops/core/gradient.h"
#include "ops/core/text_of.h"
#include "ops/core/wanted_output.h"

namespace tessera::ops {
namespace {

void infer_ctc_loss(InferContext& context) {
  const ir::Dims *scores = context.dims(0), *labels = context.dims(1);
  context.check(scores == nullptr || scores->size() == 3, "'scores' has rank {}, expected [batch, time, classes]",
                scores == nullptr ? 0 : scores->size());
  context.check(labels == nullptr || labels->size() == 2, "'labels' has rank {}, expected [batch, length]",
                labels == nullptr ? 0 : labels->size());
  if (scores != nullptr && labels != nullptr)
    context.check((*scores)[0].may_equal((*labels)[0]), "labels of shape {} do not fit scores of shape {}",
                  text_of(*labels), text_of(*scores));
  context.check(context.integer("blank") >= 0, "blank is {}, expected a class", context.integer("blank"));
  context.set_output(0, context.dtype(0), {scores != nullptr ? (*scores)[0] : ir::Dim()});
  context.set_output(1, context.input(0));
}

void loss_gradient(GradientContext& c) {
  require(!c.has_gradient(1), ErrorKind::unsupported, "output 'dScores' is used");
  c.set(0, c.gradient().unsqueeze({1, 2}) * wanted_output(c, 1));
}

}  // namespace

const OpDef ctc_loss{
    .name = "tessera::CtcLoss",
    .since = 1,
    .inputs = {{"scores", types::floats, "T"}, {"labels", types::index, "I"}},
    .outputs = {{"losses", types::floats, "T"}, {"dScores", types::floats, "T", optional}},
    .attributes = {{"blank", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})},
                   {"ignore_index", ir::AttributeKind::integer, ir::Attribute(std::int64_t{-100})}},
    .infer = infer_ctc_loss,
    .operations = operations_per_input<20>,
    .gradient = loss_gradient,
};

}  // namespace tessera::ops
