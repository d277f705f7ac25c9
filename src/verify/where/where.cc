#include "verify/where/where.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/checked.h"

namespace convgrad {
namespace {

// Output positions of one dimension at which some tap falls off the input.
std::vector<bool> ForwardBorder(int64_t out, int64_t stride, int64_t reach, int64_t pad,
                                int64_t in) {
  std::vector<bool> border(static_cast<size_t>(out));
  for (int64_t p = 0; p < out; ++p) {
    const int64_t first = p * stride - pad;
    border[static_cast<size_t>(p)] = first < 0 || first + reach >= in;
  }
  return border;
}

// Input positions of one dimension at which some tap would need an output that does not exist.
std::vector<bool> BackwardBorder(int64_t in, int64_t stride, int64_t reach, int64_t pad,
                                 int64_t out) {
  std::vector<bool> border(static_cast<size_t>(in));
  for (int64_t p = 0; p < in; ++p) {
    border[static_cast<size_t>(p)] = p + pad - reach < 0 || p + pad > (out - 1) * stride;
  }
  return border;
}

// Channels that one step of a vectorized kernel takes: those left over when vectors of 16, 8 or 4
// have taken theirs, or those of one vector or of one tile of the matrix kernels.
std::optional<std::string> LanesInWords(const AxisRange& range) {
  if (range.period > 0 || range.first == range.last) return std::nullopt;
  for (const int64_t lanes : {4, 8, 16}) {
    const int64_t tail = range.size - range.size % lanes;
    if (tail == 0 || range.first != tail || range.last != range.size - 1) continue;
    return fmt::format("channel tail (from {} of {})", tail, range.size);
  }
  for (const int64_t lanes : {16, 64}) {
    if (range.first % lanes != 0 || range.last != range.first + lanes - 1) continue;
    return fmt::format("one block of {} channels ({}..{})", lanes, range.first, range.last);
  }
  return std::nullopt;
}

}  // namespace

Layout::Layout(const Shape& shape) : shape_(shape), grids_(shape) {
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    axis_names_.push_back(fmt::format("index of axis {}", axis));
  }
}

Layout::Layout(const Problem& problem) : shape_(problem.ResultShape()), grids_(shape_) {
  const ConvGeometry& g = problem.geometry;
  const OpInfo& op = InfoOf(problem.op);
  const int64_t reach_h = (g.kernel_h - 1) * g.dilation_h,
                reach_w = (g.kernel_w - 1) * g.dilation_w;
  if (op.direction == Direction::kBackpropFilter) {
    axis_names_ = {"kernel row", "kernel column", "input channel",
                   op.depthwise ? "multiplier" : "output channel"};
    row_axis_ = 0;
    col_axis_ = 1;
    channel_axis_ = op.depthwise ? 2 : 3;
    return;
  }
  const bool nhwc = problem.data_format == DataFormat::kNHWC;
  const size_t row = nhwc ? 1 : 2, col = row + 1;
  axis_names_ = nhwc ? std::vector<std::string>{"image", "row", "column", "channel"}
                     : std::vector<std::string>{"image", "channel", "row", "column"};
  channel_axis_ = nhwc ? 3 : 1;
  if (*CheckedProduct(shape_) == 0) return;  // other dimensions may be huge
  if (op.direction == Direction::kForward) {
    AddBorder(row, ForwardBorder(g.out_h, g.stride_h, reach_h, g.pad_top, g.in_h));
    AddBorder(col, ForwardBorder(g.out_w, g.stride_w, reach_w, g.pad_left, g.in_w));
  } else {
    AddBorder(row, BackwardBorder(g.in_h, g.stride_h, reach_h, g.pad_top, g.out_h));
    AddBorder(col, BackwardBorder(g.in_w, g.stride_w, reach_w, g.pad_left, g.out_w));
  }
  has_inside_ = std::all_of(borders_.begin(), borders_.end(), [](const Border& border) {
    return std::find(border.is_border.begin(), border.is_border.end(), false) !=
           border.is_border.end();
  });
}

void Layout::AddBorder(size_t axis, std::vector<bool> is_border) {
  borders_.push_back({axis, std::move(is_border)});
}

std::vector<std::pair<size_t, size_t>> Layout::AxisPairs() const {
  const size_t count = shape_.size();
  if (count < 2) return {};
  for (size_t axis = 0; axis + 1 < count && count == 4; ++axis) {
    if (!axis_names_[axis].ends_with("row")) continue;
    const size_t first = axis == 0 ? 2 : 0;
    return {{axis, axis + 1}, {first, axis == 1 ? 3 : first + 1}};
  }
  std::vector<std::pair<size_t, size_t>> pairs = {{count - 2, count - 1}};
  if (count >= 4) pairs.emplace_back(count - 4, count - 3);
  return pairs;
}

Shape Layout::IndexOf(int64_t element) const {
  Shape index(shape_.size());
  for (size_t axis = shape_.size(); axis-- > 0;) {
    index[axis] = element % shape_[axis];
    element /= shape_[axis];
  }
  return index;
}

void Whereabouts::Add(const Layout& layout, int64_t element) {
  constexpr Extremes kNone = {kMaxElements, -1};
  if (count_ == 0) {
    ranges_.assign(layout.shape_.size(), kNone);
    patterns_.resize(layout.shape_.size());
  }
  bool at_border = false;
  at_.resize(ranges_.size());
  for (size_t axis = ranges_.size(); axis-- > 0;) {
    const int64_t at = element % layout.shape_[axis];
    element /= layout.shape_[axis];
    at_[axis] = at;
    ranges_[axis].first = std::min(ranges_[axis].first, at);
    ranges_[axis].last = std::max(ranges_[axis].last, at);
    patterns_[axis].Add(at, layout.shape_[axis]);
    for (const Layout::Border& border : layout.borders_) {
      at_border |= border.axis == axis && border.is_border[static_cast<size_t>(at)];
    }
  }
  at_border_ += at_border;
  ++count_;
  grids_.Add(layout.grids_, at_);
}

void Whereabouts::Join(const Whereabouts& other) {
  if (other.count_ == 0) return;
  if (count_ == 0) {
    *this = other;
    return;
  }
  for (size_t axis = 0; axis < ranges_.size(); ++axis) {
    ranges_[axis].first = std::min(ranges_[axis].first, other.ranges_[axis].first);
    ranges_[axis].last = std::max(ranges_[axis].last, other.ranges_[axis].last);
    patterns_[axis].Join(other.patterns_[axis]);
  }
  count_ += other.count_;
  at_border_ += other.at_border_;
  grids_.Join(other.grids_);
}

std::optional<HeatMap> Whereabouts::Picture(const Layout& layout) const {
  if (count_ < 2) return std::nullopt;  // one element is better told
  Shape extents;
  for (const Extremes& range : ranges_) extents.push_back(range.last - range.first + 1);
  return grids_.Telling(layout.grids_, layout.axis_names_, extents);
}

Box Whereabouts::LeastBox(const Layout& layout) const {
  Box box;
  for (size_t axis = 0; axis < ranges_.size(); ++axis) {
    AxisRange range = {layout.axis_names_[axis],
                       layout.shape_[axis],
                       ranges_[axis].first,
                       ranges_[axis].last,
                       0,
                       {}};
    patterns_[axis].FindPeriod(range);
    box.axes.push_back(std::move(range));
  }
  box.is_filled = count_ > 0 && box.Elements() == count_;
  return box;
}

std::string Whereabouts::Describe(const Layout& layout) const {
  if (count_ == 0) return "";
  if (count_ == 1) {
    Shape index;
    for (const Extremes& range : ranges_) index.push_back(range.first);
    const bool border = layout.has_inside_ && at_border_ == 1;
    return fmt::format("one element {}{}", ToString(index), border ? " at the border" : "");
  }
  if (count_ == *CheckedProduct(layout.shape_)) return "everywhere";
  std::vector<std::string> traits;
  const bool border = layout.has_inside_ && at_border_ == count_;
  if (border) traits.push_back("border");
  const auto one_tap = OneTap(layout);
  if (one_tap) traits.push_back(*one_tap);
  const Box box = LeastBox(layout);
  bool has_range = false;  // of which not all elements need to be meant
  for (size_t axis = 0; axis < box.axes.size(); ++axis) {
    const AxisRange& range = box.axes[axis];
    const bool is_told = one_tap && (axis == layout.row_axis_ || axis == layout.col_axis_);
    if (is_told || range.IsWhole()) continue;
    const auto lanes = axis == layout.channel_axis_ ? LanesInWords(range) : std::nullopt;
    traits.push_back(lanes.value_or(InWords(range)));
    has_range |= !lanes && range.first != range.last;
  }
  if (traits.empty()) return "scattered";
  const bool is_part = has_range && !border && !box.is_filled;
  // Numbers near zero hide in most tolerances: a part that is wrong as a whole rarely shows so.
  const bool is_nearly_whole = box.Elements() - count_ <= box.Elements() / 10;
  const char* how = !is_part ? "" : is_nearly_whole ? "nearly all of " : "scattered in ";
  return fmt::format("{}{}", how, fmt::join(traits, ", "));
}

std::optional<std::string> Whereabouts::OneTap(const Layout& layout) const {
  if (!layout.row_axis_) return std::nullopt;
  const Extremes row = ranges_[*layout.row_axis_], col = ranges_[*layout.col_axis_];
  const int64_t taps = layout.shape_[*layout.row_axis_] * layout.shape_[*layout.col_axis_];
  if (taps == 1 || row.first != row.last || col.first != col.last) return std::nullopt;
  return fmt::format("one tap (row {}, column {})", row.first, col.first);
}

}  // namespace convgrad
