#include "train/data/images/volume_transforms.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "base/error.h"

namespace tessera::train {
namespace {

std::size_t find_field(const std::vector<Field>& fields, const std::string& name, DType type, std::size_t rank) {
  const auto found = std::ranges::find(fields, name, &Field::name);
  require(found != fields.end() && found->dtype == type && found->shape.size() == rank, ErrorKind::invalid_argument,
          "biased_crop is for volumes x f32 [channels, depth, height, width] with labels y i64 [depth, height, width]; "
          "the data have {}",
          found == fields.end() ? "no field " + name
                                : fmt::format("{} {} {}", name, name_of(found->dtype), to_string(found->shape)));
  return static_cast<std::size_t>(found - fields.begin());
}

class BiasedCrop final : public SampleTransform {
 public:
  BiasedCrop(const VolumeSize& size, double probability) : size_(size), probability_(probability) {}

  std::vector<Field> bind(const std::vector<Field>& input) override {
    fields_ = input;
    x_ = find_field(input, "x", DType::f32, 4);
    y_ = find_field(input, "y", DType::i64, 3);
    const Shape &x = input[x_].shape, &y = input[y_].shape;
    require(std::equal(y.begin(), y.end(), x.begin() + 1), ErrorKind::invalid_argument,
            "biased_crop: volumes {} and their labels {} differ in size", to_string(x), to_string(y));
    require(size_.depth <= y[0] && size_.height <= y[1] && size_.width <= y[2], ErrorKind::invalid_argument,
            "biased_crop: a part of {} × {} × {} cannot be cut out of volumes of {} × {} × {}", size_.depth,
            size_.height, size_.width, y[0], y[1], y[2]);
    whole_ = {y[0], y[1], y[2]};
    std::vector<Field> output = input;
    output[x_].shape = {x[0], size_.depth, size_.height, size_.width};
    output[y_].shape = {size_.depth, size_.height, size_.width};
    return output;
  }

  void apply(std::int64_t index, std::span<const std::byte* const> in, std::span<std::byte* const> out,
             base::Philox& numbers) const override {
    const auto* labels = reinterpret_cast<const std::int64_t*>(in[y_]);
    VolumeSize begin{numbers.next_integer(0, whole_.depth - size_.depth),
                     numbers.next_integer(0, whole_.height - size_.height),
                     numbers.next_integer(0, whole_.width - size_.width)};
    const bool biased = numbers.next_uniform() < probability_;
    if (biased) {
      const std::shared_ptr<const std::vector<Component>> components = components_of(index, labels);
      if (!components->empty()) {
        const auto most = static_cast<std::int64_t>(components->size()) - 1;
        const Component& chosen = (*components)[static_cast<std::size_t>(numbers.next_integer(0, most))];
        const VolumeSize voxel = voxel_of(chosen, labels, numbers);
        begin = {cover(voxel.depth, size_.depth, whole_.depth, numbers),
                 cover(voxel.height, size_.height, whole_.height, numbers),
                 cover(voxel.width, size_.width, whole_.width, numbers)};
      }
    }
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      if (i == x_) {
        const std::int64_t voxels = whole_.depth * whole_.height * whole_.width;
        const std::int64_t kept = size_.depth * size_.height * size_.width;
        for (std::int64_t c = 0; c < fields_[i].shape[0]; ++c)
          cut(begin, in[i] + c * voxels * 4, out[i] + c * kept * 4, 4);
      } else if (i == y_) {
        cut(begin, in[i], out[i], sizeof(std::int64_t));
      } else {
        std::memcpy(out[i], in[i], static_cast<std::size_t>(fields_[i].bytes()));
      }
    }
  }

 private:
  // A voxel above 0 in the component's box: the first one behind a random place.
  VolumeSize voxel_of(const Component& component, const std::int64_t* labels, base::Philox& numbers) const {
    const VolumeSize &first = component.first, &last = component.last;
    const VolumeSize extent{last.depth - first.depth + 1, last.height - first.height + 1, last.width - first.width + 1};
    const std::int64_t count = extent.depth * extent.height * extent.width;
    const std::int64_t start = numbers.next_integer(0, count - 1);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t at = (start + i) % count;
      const VolumeSize voxel{first.depth + at / (extent.height * extent.width),
                             first.height + at / extent.width % extent.height, first.width + at % extent.width};
      if (labels[(voxel.depth * whole_.height + voxel.height) * whole_.width + voxel.width] > 0) return voxel;
    }
    return first;
  }

  // Where a part of `size` begins that contains `at`.
  static std::int64_t cover(std::int64_t at, std::int64_t size, std::int64_t whole, base::Philox& numbers) {
    return numbers.next_integer(std::max<std::int64_t>(0, at - size + 1), std::min(at, whole - size));
  }

  void cut(const VolumeSize& begin, const std::byte* from, std::byte* to, std::int64_t element_bytes) const {
    const auto line = static_cast<std::size_t>(size_.width * element_bytes);
    for (std::int64_t d = 0; d < size_.depth; ++d) {
      for (std::int64_t h = 0; h < size_.height; ++h) {
        const std::int64_t at = ((begin.depth + d) * whole_.height + begin.height + h) * whole_.width + begin.width;
        std::memcpy(to, from + at * element_bytes, line);
        to += line;
      }
    }
  }

  // Components take as long to find as many crops, so they are kept by sample.
  std::shared_ptr<const std::vector<Component>> components_of(std::int64_t index, const std::int64_t* labels) const {
    {
      const std::lock_guard lock(mutex_);
      const auto found = components_.find(index);
      if (found != components_.end()) return found->second;
    }
    auto made = std::make_shared<const std::vector<Component>>(connected_components(labels, whole_));
    const std::lock_guard lock(mutex_);
    return components_.emplace(index, std::move(made)).first->second;
  }

  VolumeSize size_, whole_;
  double probability_;
  std::vector<Field> fields_;
  std::size_t x_ = 0, y_ = 0;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::int64_t, std::shared_ptr<const std::vector<Component>>> components_;
};

}  // namespace

std::vector<Component> connected_components(const std::int64_t* labels, const VolumeSize& size) {
  const std::int64_t plane = size.height * size.width, voxels = size.depth * plane;
  std::vector<bool> seen(static_cast<std::size_t>(voxels));
  std::vector<Component> components;
  std::vector<std::int64_t> open;
  for (std::int64_t start = 0; start < voxels; ++start) {
    if (labels[start] <= 0 || seen[static_cast<std::size_t>(start)]) continue;
    Component component{{size.depth, size.height, size.width}, {0, 0, 0}};
    const auto visit = [&](std::int64_t voxel) {
      if (labels[voxel] <= 0 || seen[static_cast<std::size_t>(voxel)]) return;
      seen[static_cast<std::size_t>(voxel)] = true;
      open.push_back(voxel);
    };
    visit(start);
    while (!open.empty()) {
      const std::int64_t voxel = open.back();
      open.pop_back();
      const std::int64_t d = voxel / plane, h = voxel / size.width % size.height, w = voxel % size.width;
      component.first = {std::min(component.first.depth, d), std::min(component.first.height, h),
                         std::min(component.first.width, w)};
      component.last = {std::max(component.last.depth, d), std::max(component.last.height, h),
                        std::max(component.last.width, w)};
      if (d > 0) visit(voxel - plane);
      if (d + 1 < size.depth) visit(voxel + plane);
      if (h > 0) visit(voxel - size.width);
      if (h + 1 < size.height) visit(voxel + size.width);
      if (w > 0) visit(voxel - 1);
      if (w + 1 < size.width) visit(voxel + 1);
    }
    components.push_back(component);
  }
  return components;
}

std::unique_ptr<SampleTransform> make_biased_crop(const VolumeSize& size, double probability) {
  return std::make_unique<BiasedCrop>(size, probability);
}

}  // namespace tessera::train
