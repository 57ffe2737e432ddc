#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "serve/core/steps/picture_step.h"
#include "tessera/graph.h"

namespace tessera::serve {
namespace {

constexpr std::int64_t kMostBoxes = 1 << 20;  // that a network may give for a picture

struct Layout {
  std::string boxes, scores;  // the network's outputs; scores "": both in the first
  std::string format, units;
  bool columns = false, objectness = false;
};

// Left, top, right, bottom.
using Box = std::array<float, 4>;

// Picks boxes [1, n, 4] by their scores [1, classes, n]: I64 [k, 3] of picture, class, box.
Model make_suppression(StepSettings& settings) {
  NetBuilder net("suppression");
  const NetValue boxes = net.input("boxes", DType::f32, {std::int64_t{1}, std::string("n"), std::int64_t{4}});
  const NetValue scores = net.input("scores", DType::f32, {std::int64_t{1}, std::string("classes"), std::string("n")});
  const auto threshold = [&](const char* key, double usual) {
    return net.constant(Tensor::from<float>({1}, {static_cast<float>(settings.number(key, usual, 0, 1))}));
  };
  const NetValue most = net.constant(Tensor::from<std::int64_t>({1}, {settings.whole("most", 100, 1, kMostBoxes)}));
  net.output("chosen", net.add("NonMaxSuppression",
                               {boxes, scores, most, threshold("overlap", 0.45), threshold("threshold", 0.25)}));
  return net.build();
}

class DetectionStep final : public PipelineStep {
 public:
  DetectionStep(StepSource source, StepSettings before)
      : layout_(layout_of(source)),
        most_(source.settings.whole("most", 100, 1, kMostBoxes)),
        session_(make_suppression(source.settings)) {
    const std::string file = source.settings.text("labels");
    if (!file.empty()) labels_ = lines_of(source, file);
    source.settings.check_all_read();
    if (before.text("kind") == "picture") {
      PictureOptions usual;
      for (const ValueDescription& input : source.model.inputs()) {
        if (input.rank_known && input.dims.size() == 4)
          usual.height = std::max<std::int64_t>(input.dims[2], 0),
          usual.width = std::max<std::int64_t>(input.dims[3], 0);
      }
      picture_ = picture_options(before, usual);
    }
    require(layout_.units == "pixels" || picture_.width > 0, ErrorKind::invalid_argument,
            "boxes in relative units need a picture before the network");
  }

  std::vector<TensorInfo> inputs() const override {
    std::vector<TensorInfo> infos{{layout_.boxes, DType::f32, {-1, -1, -1}}};
    if (!layout_.scores.empty()) infos.push_back({layout_.scores, DType::f32, {-1, -1, -1}});
    return infos;
  }
  std::vector<TensorInfo> outputs() const override {
    return {{"box", DType::f32, {-1, 4}}, {"label", DType::string, {-1}}, {"score", DType::f32, {-1}}};
  }

  NamedValues run(Job& job, const NamedValues& values, const Cancellation&) override {
    NamedValues found = candidates(values);
    const Tensor boxes = found.find("boxes")->second.tensor(), scores = found.find("scores")->second.tensor();
    if (boxes.elements() == 0 || scores.elements() == 0) return answer({}, boxes, values);
    const NamedValues chosen = job.run(session_, found);
    const Tensor& triples = chosen.find("chosen")->second.tensor();
    std::vector<Chosen> best;
    for (std::int64_t i = 0; i < triples.shape()[0]; ++i) {
      const std::int64_t* const triple = triples.data<std::int64_t>() + 3 * i;
      best.push_back({triple[1], triple[2], scores.data<float>()[triple[1] * boxes.shape()[1] + triple[2]]});
    }
    std::ranges::stable_sort(best, [](const Chosen& a, const Chosen& b) { return a.score > b.score; });
    if (static_cast<std::int64_t>(best.size()) > most_) best.resize(static_cast<std::size_t>(most_));
    return answer(best, boxes, values);
  }

 private:
  struct Chosen {
    std::int64_t label, box;
    float score;
  };

  static Layout layout_of(StepSource& source) {
    Layout layout;
    layout.boxes = output_of(source, "boxes", DType::f32).name;
    layout.scores = source.settings.text("scores");
    if (!layout.scores.empty()) output_of(source, "scores", DType::f32);
    layout.format = source.settings.choice("format", {"cxcywh", "xyxy", "yxyx"});
    layout.units = source.settings.choice("units", {"pixels", "relative"});
    layout.columns = source.settings.choice("layout", {"rows", "columns"}) == "columns";
    layout.objectness = source.settings.boolean("objectness", false);
    return layout;
  }

  // Boxes [1, n, 4] as left, top, right, bottom, and scores [1, classes, n].
  NamedValues candidates(const NamedValues& values) const {
    const Tensor& first = values.find(layout_.boxes)->second.tensor();
    const Tensor& second = layout_.scores.empty() ? first : values.find(layout_.scores)->second.tensor();
    require_rank(first, layout_.boxes, 3);
    require_rank(second, layout_.scores, 3);
    const std::size_t count_axis = layout_.columns ? 2 : 1, field_axis = layout_.columns ? 1 : 2;
    const std::int64_t count = first.shape()[count_axis];
    const std::int64_t skipped = (layout_.scores.empty() ? 4 : 0) + (layout_.objectness ? 1 : 0);
    const std::int64_t classes = second.shape()[field_axis] - skipped;
    if (first.shape()[0] != 1 || second.shape()[0] != 1 || second.shape()[count_axis] != count || classes < 1 ||
        first.shape()[field_axis] < 4 || count > kMostBoxes)
      throw Failure(Reason::internal, "the network's boxes and scores have shapes that do not fit their settings");
    const auto at = [&](const Tensor& tensor, std::int64_t box, std::int64_t field) {
      const std::int64_t index = layout_.columns ? field * count + box : box * tensor.shape()[field_axis] + field;
      return tensor.data<float>()[index];
    };
    Tensor boxes(DType::f32, {1, count, 4}), scores(DType::f32, {1, classes, count});
    for (std::int64_t box = 0; box < count; ++box) {
      const Box corners = corners_of({at(first, box, 0), at(first, box, 1), at(first, box, 2), at(first, box, 3)});
      std::ranges::copy(corners, boxes.mutable_data<float>() + 4 * box);
      const float object = layout_.objectness ? at(second, box, skipped - 1) : 1.0f;
      for (std::int64_t label = 0; label < classes; ++label)
        scores.mutable_data<float>()[label * count + box] = object * at(second, box, skipped + label);
    }
    NamedValues made;
    made.emplace("boxes", std::move(boxes));
    made.emplace("scores", std::move(scores));
    return made;
  }

  Box corners_of(Box box) const {
    if (layout_.format == "cxcywh")
      box = {box[0] - box[2] / 2, box[1] - box[3] / 2, box[0] + box[2] / 2, box[1] + box[3] / 2};
    else if (layout_.format == "yxyx") box = {box[1], box[0], box[3], box[2]};
    if (layout_.units == "relative") {
      for (std::size_t i = 0; i < 4; ++i) box[i] *= static_cast<float>(i % 2 == 0 ? picture_.width : picture_.height);
    }
    return box;
  }

  // From pixels of the network's input to those of the picture.
  Box scaled(const float* box, std::int64_t height, std::int64_t width) const {
    Box result{box[0], box[1], box[2], box[3]};
    if (picture_.width == 0) return result;
    std::int64_t new_width = picture_.width, new_height = picture_.height;
    if (picture_.fit != PictureFit::stretch)
      new_width = std::clamp<std::int64_t>(width * picture_.height / height, 1, picture_.width);
    if (picture_.fit == PictureFit::pad)
      new_height = std::clamp<std::int64_t>(height * picture_.width / width, 1, picture_.height);
    for (std::size_t i = 0; i < 4; ++i) {
      const auto side = static_cast<float>(i % 2 == 0 ? width : height);
      const auto shown = static_cast<float>(i % 2 == 0 ? new_width : new_height);
      result[i] = std::clamp(result[i] * side / shown, 0.0f, side);
    }
    return result;
  }

  NamedValues answer(const std::vector<Chosen>& best, const Tensor& boxes, const NamedValues& values) const {
    const auto count = static_cast<std::int64_t>(best.size());
    std::int64_t height = std::max<std::int64_t>(picture_.height, 1), width = std::max<std::int64_t>(picture_.width, 1);
    if (const auto size = values.find(kPictureSize); size != values.end()) {
      height = size->second.tensor().data<std::int64_t>()[0];
      width = size->second.tensor().data<std::int64_t>()[1];
    }
    Tensor box(DType::f32, {count, 4}), label(DType::string, {count}), score(DType::f32, {count});
    for (std::int64_t i = 0; i < count; ++i) {
      const Chosen& chosen = best[static_cast<std::size_t>(i)];
      std::ranges::copy(scaled(boxes.data<float>() + 4 * chosen.box, height, width), box.mutable_data<float>() + 4 * i);
      const auto at = static_cast<std::size_t>(chosen.label);
      label.mutable_data<std::string>()[i] = at < labels_.size() ? labels_[at] : std::to_string(chosen.label);
      score.mutable_data<float>()[i] = chosen.score;
    }
    NamedValues made;
    made.emplace("box", std::move(box));
    made.emplace("label", std::move(label));
    made.emplace("score", std::move(score));
    return made;
  }

  const Layout layout_;
  const std::int64_t most_;
  PictureOptions picture_;  // without a width: the boxes are not scaled
  std::vector<std::string> labels_;
  Session session_;
};

}  // namespace

std::unique_ptr<PipelineStep> make_detection_step(StepSource source, StepSettings before) {
  return std::make_unique<DetectionStep>(std::move(source), std::move(before));
}

}  // namespace tessera::serve
