// Forward convolutions and input gradients of few pixels: what takes time is to read the filter,
// so that happens once, in the order of memory, and all pixels meet what is read. An input
// gradient's filter is transposed a few terms at a time, in the first cache; one of a 16-bit type
// is widened so, too. Where pixels of a result of few channels meet one of the source each, the
// source is read like that.
#include <algorithm>
#include <string>

#include "base/memory.h"
#include "conv/axes/flattened.h"
#include "conv/conv2d/few/algorithms.h"
#include "conv/conv2d/few/few_pixels_cut.h"
#include "conv/gemm/few_rows.h"
#include "conv/move/stream_result.h"
#include "conv/move/swap_pairs.h"
#include "conv/plan/computed_plan.h"

namespace convgrad {
namespace {

// Rows of the filter that are fetched while those before them are transposed.
constexpr int64_t kFilterRowsAhead = 16;

template <class Stored>
class FewPixelsRunner {
 public:
  using Compute = ComputeType<Stored>;

  FewPixelsRunner(const ConvArgs& args, const FewPixelsCut<Stored>& cut)
      : args_(args),
        cut_(cut),
        run_(cut.sum.forward || cut.copies_filter ? args.kernels.FewRows<Compute>().run
                                                  : args.kernels.FewRows<Compute>().run_turned),
        folds_(args.kernels.Depthwise<Compute>()),
        pack_(args.kernels.Pack<Stored>()),
        widened_(cut.NumWidened()),
        source_(WidenedSource()),
        filter_(static_cast<const Stored*>(args.filter)),
        result_(static_cast<Stored*>(args.result)),
        scratch_(args.parallel) {}

  void Run() {
    args_.parallel.For(cut_.NumTasks(), [&](int64_t i) {
      const int64_t first = i % cut_.NumStrips() * cut_.strip_cols;
      RunStrip({i / cut_.NumStrips(), first, std::min(cut_.strip_cols, cut_.sum.result_c - first)});
    });
  }

 private:
  // Some channels of the result, of a group.
  struct Strip {
    int64_t group, first, cols;
  };
  static constexpr bool kConverts = FewPixelsCut<Stored>::kConverts;

  struct Scratch {
    explicit Scratch(const FewPixelsCut<Stored>& cut)
        : sums(cut.NumSums()),
          copied(cut.NumCopied()),
          folded(cut.NumSums() * (sizeof(Compute) == sizeof(double) ? 2 : 1)) {
      std::fill_n(copied.data(), copied.size(), Compute{0});  // behind the last column, too
    }

    AlignedArray<Compute> sums, copied;
    AlignedArray<double> folded;  // and errors behind them
  };

  const Compute* WidenedSource();
  void RunStrip(const Strip& strip);
  void AddBlock(const Strip& strip, const FewPixelsPhase& phase, const TapBlock& block,
                Scratch& scratch) const;
  void RunTerms(const Strip& strip, int64_t tap, int64_t channel, Scratch& scratch,
                FewRowsArgs<Compute>& rows) const;
  void CopyFilter(const Stored* from, const Strip& strip, int64_t terms, Compute* to) const;
  void FoldBlock(const FewPixelsPhase& phase, bool first, Scratch& scratch) const;
  void Finish(const FewPixelsPhase& phase, Scratch& scratch) const;
  void Store(const Strip& strip, const Scratch& scratch) const;

  Stored* FirstOf(const Strip& strip) const {
    return result_ + strip.group * cut_.sum.result_c + strip.first;
  }

  const ConvArgs& args_;
  const FewPixelsCut<Stored>& cut_;
  void (*const run_)(const FewRowsArgs<Compute>& args);
  const DepthwiseKernels<Compute>& folds_;
  const PackKernels<Stored>& pack_;
  AlignedArray<Compute> widened_;
  const Compute* const source_;
  const Stored* const filter_;
  Stored* const result_;
  PerThread<Scratch> scratch_;
};

template <class Stored>
auto FewPixelsRunner<Stored>::WidenedSource() -> const Compute* {
  const auto* source = static_cast<const Stored*>(args_.Source(cut_.sum.forward));
  if constexpr (kConverts) {
    const bool nhwc = cut_.source.format == DataFormat::kNHWC;
    const int64_t plane = cut_.source.h * cut_.source.w;
    args_.parallel.For(cut_.sum.batch, [&](int64_t image) {
      const int64_t first = image * cut_.source.Image();
      pack_.widen(source + first, widened_.data() + first, cut_.source.Image());
      if (cut_.sum.in_pairs) {
        SwapPairs(pack_, widened_.data() + first, (nhwc ? plane : 1) * cut_.sum.groups,
                  cut_.sum.source_c, nhwc ? 1 : plane);
      }
    });
    return widened_.data();
  } else {
    return source;
  }
}

template <class Stored>
void FewPixelsRunner<Stored>::RunStrip(const Strip& strip) {
  Scratch& scratch = scratch_.Own(cut_);
  for (const FewPixelsPhase& phase : cut_.phases) {
    for (size_t i = 0; i < phase.blocks.size(); ++i) {
      AddBlock(strip, phase, phase.blocks[i], scratch);
      if (phase.blocks.size() > 1) FoldBlock(phase, i == 0, scratch);
    }
    if (!cut_.in_place) Finish(phase, scratch);
  }
  if (!cut_.in_place) Store(strip, scratch);
}

// The terms of a tap from a channel on: columns of the filter, where they lie or transposed.
template <class Stored>
void FewPixelsRunner<Stored>::RunTerms(const Strip& strip, int64_t tap, int64_t channel,
                                       Scratch& scratch, FewRowsArgs<Compute>& rows) const {
  const TapSum& sum = cut_.sum;
  const Stored* const filter =
      sum.forward ? filter_ + (tap * sum.source_c + channel) * cut_.FilterOutputs() +
                        strip.group * sum.result_c + strip.first
                  : filter_ + (tap * sum.result_c + strip.first) * cut_.FilterOutputs() +
                        strip.group * sum.source_c + channel;
  if (cut_.copies_filter) {
    CopyFilter(filter, strip, rows.num_terms, scratch.copied.data());
    rows.b = scratch.copied.data();
    rows.b_step = cut_.strip_cols;
  } else if constexpr (!kConverts) {
    rows.b = filter;
    rows.b_step = cut_.FilterOutputs();
  }
  rows.a = source_ + (strip.group * sum.source_c + channel) * cut_.a_step;
  run_(rows);
}

// Some terms of a strip as rows of its columns.
template <class Stored>
void FewPixelsRunner<Stored>::CopyFilter(const Stored* from, const Strip& strip, int64_t terms,
                                         Compute* to) const {
  const int64_t outputs = cut_.FilterOutputs(), step = cut_.strip_cols;
  const int64_t ahead = cut_.fetches ? kFilterRowsAhead * outputs : 0;
  if (cut_.sum.forward) {
    pack_.copy_widen(from, outputs, to, step, terms, strip.cols);
  } else {
    pack_.transpose_widen(from, outputs, to, step, strip.cols, terms, ahead);
  }
  if (cut_.sum.in_pairs) SwapPairs(pack_, to, 1, terms, step);
}

template <class Stored>
void FewPixelsRunner<Stored>::AddBlock(const Strip& strip, const FewPixelsPhase& phase,
                                       const TapBlock& block, Scratch& scratch) const {
  FewRowsArgs<Compute> rows{};
  rows.a_step = cut_.a_step;
  rows.num_cols = cut_.copies_filter ? RoundUp(strip.cols, cut_.lanes) : strip.cols;
  rows.fetches = cut_.fetches;
  rows.sums = scratch.sums.data();
  if constexpr (!kConverts) {
    if (cut_.in_place) rows.sums = FirstOf(strip);
  }
  rows.begins = phase.taps[static_cast<size_t>(block.tap_begin)].rows.size() == phase.pixels.size();
  if (!rows.begins) {
    for (const int64_t pixel : phase.pixels) {
      std::fill_n(rows.sums + pixel * cut_.sums_step, rows.num_cols, Compute{0});
    }
  }
  for (int64_t i = block.tap_begin; i < block.tap_end; ++i) {
    const FewPixelsTap& tap = phase.taps[static_cast<size_t>(i)];
    if (tap.rows.empty()) continue;
    rows.rows = tap.rows.data();
    rows.num_rows = std::ssize(tap.rows);
    for (int64_t at = block.channel_begin; at < block.channel_end; at += cut_.chunk_terms) {
      rows.num_terms = std::min(cut_.chunk_terms, block.channel_end - at);
      rows.ends = cut_.in_place && at + rows.num_terms == block.channel_end;
      RunTerms(strip, tap.tap, at, scratch, rows);
      rows.begins = false;
    }
  }
}

template <class Stored>
void FewPixelsRunner<Stored>::FoldBlock(const FewPixelsPhase& phase, bool first,
                                        Scratch& scratch) const {
  double* const errors = scratch.folded.data() + cut_.NumSums();
  for (const int64_t pixel : phase.pixels) {
    const int64_t at = pixel * cut_.strip_cols;
    if (first) {
      std::fill_n(scratch.folded.data() + at, cut_.strip_cols, 0.0);
      if (sizeof(Compute) == sizeof(double)) std::fill_n(errors + at, cut_.strip_cols, 0.0);
    }
    folds_.fold_block(scratch.sums.data() + at, scratch.folded.data() + at, errors + at,
                      cut_.strip_cols);
  }
}

template <class Stored>
void FewPixelsRunner<Stored>::Finish(const FewPixelsPhase& phase, Scratch& scratch) const {
  double* const errors = scratch.folded.data() + cut_.NumSums();
  for (const int64_t pixel : phase.pixels) {
    const int64_t at = pixel * cut_.strip_cols;
    Compute* sums = scratch.sums.data() + at;
    if (phase.blocks.empty()) {
      std::fill_n(sums, cut_.strip_cols, Compute{0});
    } else if (phase.blocks.size() == 1) {
      folds_.finish_block(sums, cut_.strip_cols);
    } else {
      folds_.finish(scratch.folded.data() + at, errors + at, sums, cut_.strip_cols,
                    /*round_to_odd=*/kConverts);
    }
  }
}

template <class Stored>
void FewPixelsRunner<Stored>::Store(const Strip& strip, const Scratch& scratch) const {
  const int64_t plane = cut_.result.h * cut_.result.w, step = cut_.strip_cols;
  const Compute* sums = scratch.sums.data();
  if (cut_.result.format == DataFormat::kNHWC) {
    for (int64_t pixel = 0; pixel < cut_.num_pixels; ++pixel) {
      pack_.narrow(sums + pixel * step, FirstOf(strip) + pixel * cut_.result.c, strip.cols);
    }
    return;
  }
  const int64_t channel = strip.group * cut_.sum.result_c + strip.first;
  for (int64_t image = 0; image < cut_.sum.batch; ++image) {
    pack_.transpose_narrow(sums + image * plane * step, step,
                           result_ + image * cut_.result.Image() + channel * plane, plane, plane,
                           strip.cols, /*ahead=*/0);
  }
}

// True of a 1x1 filter to one channel in NHWC, or forward to two, where each number is the product
// of a row of the source and one of the filter. Rows so short that they fill a small part of what
// is transposed are loaded one by one, which only a source that the caches hold is near enough for.
bool GivesFewChannels(const Problem& problem, const TapSum& sum) {
  const int64_t most = sum.forward ? 2 : 1, least_far_terms = sum.result_c == 1 ? 8 : 32;
  return problem.HasTerms() && problem.data_format == DataFormat::kNHWC &&
         KeepsPixels(problem.geometry) && sum.groups == 1 && sum.result_c <= most &&
         (sum.source_c >= least_far_terms || CachesHold(problem.OperandBytes(), 1));
}

// Returns the input gradient that has the same sums, cut alike by canon-1: its filter is the
// source, whose pixels are its input's channels, and its out_backprop the filter. Channels of the
// result are its pixels, so that as planes its tensors lie like filter and result.
Problem WithSourceAsFilter(const Problem& problem, const TapSum& sum) {
  Problem turned = problem;
  turned.op = Op::kConv2DBackpropInput;
  if (sum.result_c > 1) turned.data_format = DataFormat::kNCHW;
  ConvGeometry& g = turned.geometry;
  g.in_c = g.group_in_c = sum.batch * sum.source_h * sum.source_w;
  g.out_c = g.group_out_c = sum.source_c;
  g.batch = g.in_h = g.out_h = 1;
  g.in_w = g.out_w = sum.result_c;
  return turned;
}

template <class Stored>
class FewPixelsPlan final : public Plan {
 public:
  FewPixelsPlan(const Problem& problem, const KernelTable& kernels, int num_threads)
      : FewPixelsPlan(problem, TapSum(problem), kernels, num_threads) {}

  int64_t ScratchBytes() const override { return cut_.ScratchBytes(); }
  Work CountWork() const override { return cut_.CountWork(); }
  std::string Tiles() const override { return cut_.Tiles(); }
  bool Run(const ConvArgs& args) const override {
    if (turns_) {
      const bool forward = InfoOf(args.problem.op).direction == Direction::kForward;
      const ConvArgs turned = {problem_,    nullptr,      args.Source(forward), args.filter,
                               args.result, args.kernels, args.parallel};
      FewPixelsRunner<Stored>(turned, cut_).Run();
    } else {
      FewPixelsRunner<Stored>(args, cut_).Run();
    }
    return true;
  }

 private:
  FewPixelsPlan(const Problem& problem, const TapSum& sum, const KernelTable& kernels,
                int num_threads)
      : turns_(GivesFewChannels(problem, sum)),
        problem_(turns_ ? WithSourceAsFilter(problem, sum) : problem),
        cut_(problem_, kernels, num_threads) {}

  const bool turns_;
  const Problem problem_;
  const FewPixelsCut<Stored> cut_;
};

bool CanTakeFewPixels(const Problem& problem, const KernelTable& kernels) {
  if (!HasFewRowsKernel(kernels) || !TapSum::Describes(problem)) return false;
  const TapSum sum(problem);
  return HasFewPixels(sum) || GivesFewChannels(problem, sum);
}

}  // namespace

const Algorithm kConv2DFewPixels = {
    .name = "few-pixels",
    .summary = "few pixels of the result, or one or two channels: filter or source read once",
    .can = CanTakeFewPixels,
    .plan = PlanStored<FewPixelsPlan>,
};

}  // namespace convgrad
