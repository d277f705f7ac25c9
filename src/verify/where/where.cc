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

Shape Layout::IndexOf(int64_t element) const {
  Shape index(shape_.size());
  for (size_t axis = shape_.size(); axis-- > 0;) {
    index[axis] = element % shape_[axis];
    element /= shape_[axis];
  }
  return index;
}

void Whereabouts::Add(const Layout& layout, int64_t element) {
  constexpr Range kNone = {kMaxElements, -1};
  if (count_ == 0) ranges_.assign(layout.shape_.size(), kNone);
  bool at_border = false;
  at_.resize(ranges_.size());
  for (size_t axis = ranges_.size(); axis-- > 0;) {
    const int64_t at = element % layout.shape_[axis];
    element /= layout.shape_[axis];
    at_[axis] = at;
    ranges_[axis].first = std::min(ranges_[axis].first, at);
    ranges_[axis].last = std::max(ranges_[axis].last, at);
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
  }
  count_ += other.count_;
  at_border_ += other.at_border_;
  grids_.Join(other.grids_);
}

std::optional<HeatMap> Whereabouts::Picture(const Layout& layout) const {
  if (count_ < 2) return std::nullopt;  // one element is better told
  Shape extents;
  for (const Range& range : ranges_) extents.push_back(range.last - range.first + 1);
  return grids_.Telling(layout.grids_, layout.axis_names_, extents);
}

std::string Whereabouts::Describe(const Layout& layout) const {
  if (count_ == 0) return "";
  if (count_ == 1) {
    Shape index;
    for (const Range& range : ranges_) index.push_back(range.first);
    const bool border = layout.has_inside_ && at_border_ == 1;
    return fmt::format("one element {}{}", ToString(index), border ? " at the border" : "");
  }
  if (count_ == *CheckedProduct(layout.shape_)) return "everywhere";
  const std::vector<std::string> traits = Traits(layout);
  return traits.empty() ? Box(layout) : fmt::format("{}", fmt::join(traits, ", "));
}

std::string Whereabouts::Box(const Layout& layout) const {
  std::vector<std::string> sides;
  bool is_whole = true;
  int64_t volume = 1;  // at most that of the tensor
  for (size_t axis = 0; axis < ranges_.size(); ++axis) {
    const Range range = ranges_[axis];
    volume *= range.last - range.first + 1;
    sides.push_back(fmt::format("{}..{}", range.first, range.last));
    is_whole &= range.first == 0 && range.last == layout.shape_[axis] - 1;
  }
  if (is_whole) return "scattered";
  return fmt::format("{} [{}]", volume == count_ ? "all of" : "scattered in",
                     fmt::join(sides, ","));
}

std::vector<std::string> Whereabouts::Traits(const Layout& layout) const {
  std::vector<std::string> traits;
  if (layout.has_inside_ && at_border_ == count_) traits.push_back("border");
  const auto one_tap = OneTap(layout);
  if (one_tap) traits.push_back(*one_tap);
  for (size_t axis = 0; axis < ranges_.size(); ++axis) {
    const bool told = one_tap && (axis == layout.row_axis_ || axis == layout.col_axis_);
    if (told || layout.shape_[axis] == 1 || ranges_[axis].first != ranges_[axis].last) continue;
    traits.push_back(fmt::format("one {} ({})", layout.axis_names_[axis], ranges_[axis].first));
  }
  if (const auto tail = ChannelTail(layout)) {
    traits.push_back(*tail);
  } else if (const auto block = ChannelBlock(layout)) {
    traits.push_back(*block);
  }
  return traits;
}

std::optional<std::string> Whereabouts::OneTap(const Layout& layout) const {
  if (!layout.row_axis_) return std::nullopt;
  const Range row = ranges_[*layout.row_axis_], col = ranges_[*layout.col_axis_];
  const int64_t taps = layout.shape_[*layout.row_axis_] * layout.shape_[*layout.col_axis_];
  if (taps == 1 || row.first != row.last || col.first != col.last) return std::nullopt;
  return fmt::format("one tap (row {}, column {})", row.first, col.first);
}

// The channels left over when vectors of 16, 8 or 4 have taken theirs.
std::optional<std::string> Whereabouts::ChannelTail(const Layout& layout) const {
  if (!layout.channel_axis_) return std::nullopt;
  const Range range = ranges_[*layout.channel_axis_];
  const int64_t channels = layout.shape_[*layout.channel_axis_];
  for (const int64_t lanes : {4, 8, 16}) {
    const int64_t tail = channels - channels % lanes;
    if (tail == 0 || tail == channels || range.first < tail) continue;
    return fmt::format("channel tail (from {} of {})", tail, channels);
  }
  return std::nullopt;
}

// The channels of one vector, or of one tile of the matrix kernels.
std::optional<std::string> Whereabouts::ChannelBlock(const Layout& layout) const {
  if (!layout.channel_axis_) return std::nullopt;
  const Range range = ranges_[*layout.channel_axis_];
  const int64_t channels = layout.shape_[*layout.channel_axis_];
  if (range.first == range.last) return std::nullopt;
  for (const int64_t lanes : {16, 64}) {
    const int64_t begin = range.first / lanes * lanes;
    if (channels <= lanes || range.last / lanes * lanes != begin) continue;
    return fmt::format("one block of {} channels ({}..{})", lanes, begin,
                       std::min(channels, begin + lanes) - 1);
  }
  return std::nullopt;
}

}  // namespace convgrad
