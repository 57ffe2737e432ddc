// Places the labels of a plot such that none covers another.
#pragma once

#include <string_view>
#include <vector>

namespace tessera::report {

struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
  bool meets(const Box& other) const;
};

// The position of a text: its baseline begins at (x, y), and it is turned clockwise by `degrees` about that point.
struct LabelPosition {
  double x = 0, y = 0;
  std::string_view anchor = "start";  // start, middle or end
  double degrees = 0;
};

// The approximate boxes that a text of 12 pixels covers: a single one, or several small ones along a sloping line.
std::vector<Box> label_boxes(std::string_view text, const LabelPosition& position);

class LabelPlacement {
 public:
  // Labels stay within `frame`.
  explicit LabelPlacement(Box frame) : frame_(frame) {}
  void reserve(const Box& box) { taken_.push_back(box); }  // no label may be placed here
  void avoid(const Box& box) { avoided_.push_back(box); }  // a label is placed here only if no other position is free
  // Takes the first position that is free of labels and of boxes to be avoided, else the first that is free of labels.
  // Returns null if every position would cover a label or leave the frame.
  const LabelPosition* place(std::string_view text, const std::vector<LabelPosition>& positions);

 private:
  bool is_free(const std::vector<Box>& boxes, bool of_all) const;
  Box frame_;
  std::vector<Box> taken_, avoided_;
};

}  // namespace tessera::report
