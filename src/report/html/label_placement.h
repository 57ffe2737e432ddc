// Where the labels of a plot may stand so that none covers another.
#pragma once

#include <string_view>
#include <vector>

namespace tessera::report {

struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
  bool meets(const Box& other) const;
};

// A text at (x, y), its baseline, turned clockwise by `degrees` about that point.
struct LabelPosition {
  double x = 0, y = 0;
  std::string_view anchor = "start";  // start, middle or end
  double degrees = 0;
};

// About the boxes that a text of 12 pixels covers: one, or several small ones along a turned line.
std::vector<Box> label_boxes(std::string_view text, const LabelPosition& position);

class LabelPlacement {
 public:
  // Labels stay within `frame`.
  explicit LabelPlacement(Box frame) : frame_(frame) {}
  void reserve(const Box& box) { taken_.push_back(box); }  // no label may stand here
  void avoid(const Box& box) { avoided_.push_back(box); }  // a label stands here only where nothing else is left
  // Takes the first position that is free of all labels and of what is to be avoided, else the first that is free of
  // labels. Null where every position would cover a label or leave the frame.
  const LabelPosition* place(std::string_view text, const std::vector<LabelPosition>& positions);

 private:
  bool is_free(const std::vector<Box>& boxes, bool of_all) const;
  Box frame_;
  std::vector<Box> taken_, avoided_;
};

}  // namespace tessera::report
