#include "report/html/label_placement.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tessera::report {
namespace {

// The size of letters of a 12-pixel sans-serif font: wide enough for all but capitals.
constexpr double kLetterWidth = 6.9, kAscent = 10, kDescent = 3.5;

std::size_t letters_in(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

bool Box::meets(const Box& other) const {
  return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
}

std::vector<Box> label_boxes(std::string_view text, const LabelPosition& position) {
  const double width = kLetterWidth * static_cast<double>(letters_in(text));
  const double begin = position.anchor == "end" ? -width : position.anchor == "middle" ? -width / 2 : 0;
  if (position.degrees == 0) {
    return {{position.x + begin, position.y - kAscent, position.x + begin + width, position.y + kDescent}};
  }
  const double turn = position.degrees * std::numbers::pi / 180, step = kLetterWidth;
  const double height = kAscent + kDescent, half = height / 2, above = (kAscent - kDescent) / 2;
  std::vector<Box> boxes;
  for (double along = begin + step / 2; along < begin + width; along += step) {
    const double x = position.x + along * std::cos(turn) + above * std::sin(turn);
    const double y = position.y + along * std::sin(turn) - above * std::cos(turn);
    boxes.push_back({x - half, y - half, x + half, y + half});
  }
  return boxes;
}

bool LabelPlacement::is_free(const std::vector<Box>& boxes, bool of_all) const {
  return std::ranges::all_of(boxes, [&](const Box& box) {
    const auto meets = [&](const Box& other) { return box.meets(other); };
    if (box.left < frame_.left || box.right > frame_.right || box.top < frame_.top || box.bottom > frame_.bottom)
      return false;
    return std::ranges::none_of(taken_, meets) && (!of_all || std::ranges::none_of(avoided_, meets));
  });
}

const LabelPosition* LabelPlacement::place(std::string_view text, const std::vector<LabelPosition>& positions) {
  for (const bool of_all : {true, false}) {
    for (const LabelPosition& position : positions) {
      const std::vector<Box> boxes = label_boxes(text, position);
      if (!is_free(boxes, of_all)) continue;
      taken_.insert(taken_.end(), boxes.begin(), boxes.end());
      return &position;
    }
  }
  return nullptr;
}

}  // namespace tessera::report
