#include "conv/conv2d/filter/cut.h"

#include <fmt/format.h>

#include <algorithm>

#include "conv/move/stream_result.h"

namespace convgrad {
namespace {

// Packed operands of a stage: little enough to be in cache when they are used, with what is fetched
// for the next one, but no less than the sums, which every stage reads and writes again. Processors
// with short vectors have smaller caches, which matters where stages are pixels. Threads, which
// wait for each other in every stage, take more.
constexpr int64_t kStageBytes = 512 << 10, kShortVectorsStageBytes = 256 << 10;
constexpr int64_t kStageBytesPerThread = int64_t{2} << 20;
constexpr int64_t kMostStageBytes = int64_t{32} << 20;
constexpr int64_t kImageBytes = int64_t{6} << 20;       // of both operands: taken whole
constexpr int64_t kDealtSumBytes = 640 << 10;           // those of a run, beside a stage's operands
constexpr int64_t kDealtBlockBytes = int64_t{1} << 20;  // those of all blocks of a thread
// A panel of so many bytes, for one call of the micro-kernel, stays in the second-level cache
// beside the rows. Vectors shorter than a line compute less with each line: theirs stays near the
// first.
constexpr int64_t kChunkBytes = 128 << 10, kShortVectorsChunkBytes = 48 << 10;
constexpr int64_t kOneCallBytes = 640 << 10;  // where that saves keeping sums
constexpr int64_t kOneCallPixels = 2560, kOneCallPixelsAlone = 1280;  // there; of NHWC, one thread
constexpr int64_t kOneCallPackedBytes = 8 << 20;                      // there, beside fewer sums
constexpr int64_t kGroupBytes = 384 << 10;  // of the input, for a group of row blocks
constexpr int64_t kListBytes = 1 << 20;     // of all pixels of a stage for all taps
constexpr int64_t kTilesPerThread = 32;     // with fewer, threads also take runs side by side

}  // namespace

FilterCut::FilterCut(const Problem& problem, const Sizes& sizes_in, int num_threads_in,
                     FilterForm form_in)
    : geometry(problem.geometry),
      format(problem.data_format),
      sizes(sizes_in),
      form(form_in),
      joined(Joins(form)),
      inputs_in_lanes(PutsInputsInLanes(form)),
      in_pairs(TermsInPairs(problem) && !sizes.pairs),
      num_threads(num_threads_in),
      operand_bytes(problem.OperandBytes()),
      out_cols(sizes.pairs ? CeilDiv(geometry.out_w, int64_t{2}) : geometry.out_w),
      num_taps(geometry.kernel_h * geometry.kernel_w),
      tile_taps(joined ? 1 : num_taps),
      row_blocks(CeilDiv(NumRows(), sizes.tile_rows)),
      rows(MakeRows()),
      cols(MakeCols()),
      blocks(MakeBlocks(TermsInPairs(problem))),
      portion_blocks(PaysToDealBlocks() ? 1 : kRunBlocks),
      one_call(portion_blocks == kRunBlocks && OneCallSuffices()),
      passes(CutPasses()),
      deals_portions(portion_blocks == 1 || PaysToDealRuns()),
      stages(CutStages()),
      most_elements(MostElements()),
      chunk_blocks(one_call ? portion_blocks
                            : std::clamp<int64_t>(ChunkBytes() / (kBlockTerms * PanelBytes()), 1,
                                                  portion_blocks)),
      group_row_blocks(GroupRowBlocks()),
      portions_at_once(PortionsAtOnce()),
      lists_stages(joined ||
                   tile_taps * MostStageSegments() * int64_t{sizeof(GemmSegment)} <= kListBytes) {}

std::vector<PixelBlock> FilterCut::MakeBlocks(bool pairs) const {
  auto all = PixelBlocks(geometry.batch, geometry.out_h, geometry.out_w, pairs);
  if (sizes.pairs) CountInPairs(all);
  return all;
}

bool FilterCut::OneCallSuffices() const {
  const int64_t num_pixels = NumPixels();
  const int64_t most_bytes = sizes.vectors_are_lines ? kOneCallBytes : ChunkBytes();
  if (NumRuns() > 1 || num_pixels > MostCallPixels() || num_pixels * PanelBytes() > most_bytes) {
    return false;
  }
  if (PanelsCrowdInPlace()) return false;
  const Pass all{0, geometry.groups, 0, sizes.panels.count};
  const double packed = (UsesInputInPlace() ? 0 : Product(GridPixels(), InputWidth(all))) +
                        (UsesOutputInPlace() ? 0 : Product(OutputWidth(all)));
  const double packed_bytes = packed * Product(num_pixels, sizes.element_bytes);
  const double room = std::max(
      AllSumBytes(), Product(std::max(kOneCallPackedBytes, kStageBytesPerThread * num_threads)));
  return packed_bytes <= std::min(room, Product(kMostStageBytes));
}

// Every panel reads all of its input again, a part of each pixel in NHWC: from beyond the caches
// the parts come one by one, where stages come in order. Many pixels of one panel take up a cache,
// too, but threads wait for each other in every stage.
int64_t FilterCut::MostCallPixels() const {
  if (format == DataFormat::kNCHW) return kOneCallPixels;
  if (!CachesHold(operand_bytes, 1)) return 0;
  return num_threads == 1 ? kOneCallPixelsAlone : kOneCallPixels;
}

int64_t FilterCut::CallPixels() const {
  const int64_t num_pixels = NumPixels();
  if (num_pixels <= MostCallPixels()) return num_pixels;
  const auto sum_bytes =
      static_cast<int64_t>(std::min(AllSumBytes(), static_cast<double>(kSumBytes)));
  const int64_t pixel_bytes = (geometry.in_c + geometry.out_c) * sizes.element_bytes;
  return std::min(
      {num_pixels, StageBytes(sum_bytes, num_threads) / pixel_bytes, ChunkBytes() / PanelBytes()});
}

int64_t FilterCut::StageBytes(int64_t sum_bytes, int threads) const {
  const bool small = !sizes.vectors_are_lines && format == DataFormat::kNHWC;
  const int64_t alone = small ? kShortVectorsStageBytes : kStageBytes;
  const int64_t least = threads == 1 ? alone : kStageBytesPerThread * threads;
  return std::min(std::max(sum_bytes, least), kMostStageBytes);
}

int64_t FilterCut::ChunkBytes() const {
  return sizes.vectors_are_lines ? kChunkBytes : kShortVectorsChunkBytes;
}

double FilterCut::AllSumBytes() const {
  return Product(geometry.groups, sizes.panels.count, row_blocks, tile_taps, sizes.tile_sums,
                 int64_t{sizeof(double)});
}

std::vector<PixelStage> FilterCut::CutStages() const {
  const int packing_threads = deals_portions ? num_threads : 1;  // each on its own
  const int stage_threads = deals_portions ? 1 : num_threads;
  const int64_t pixel_bytes = PixelNumbers(passes.front()) * sizes.element_bytes;
  const int64_t stage_bytes = StageBytes(SumBytes(), stage_threads);
  // Only whole images of planes lie together, so that they can be fetched ahead.
  const int64_t image_pixels = geometry.out_h * out_cols;
  const int64_t image_bytes = pixel_bytes * image_pixels;
  const bool whole_images = format == DataFormat::kNCHW && image_bytes <= kImageBytes &&
                            packing_threads * image_bytes <= kMostStageBytes;
  int64_t stage_pixels = NumPixels();
  if (!one_call && !ReadsOperandsFromCaches()) {
    stage_pixels = std::max<int64_t>(whole_images ? image_pixels : 1, stage_bytes / pixel_bytes);
  }
  // One thread packs alike for all portions: then it has its tiles' lists from the last one.
  const bool end_with_portions = stage_threads == 1 && !one_call;
  if (end_with_portions) {
    const int64_t portion_pixels = std::min(NumPixels(), portion_blocks * MostBlockPixels());
    stage_pixels = CeilDiv(portion_pixels, CeilDiv(portion_pixels, stage_pixels));
  }
  return SplitStages(blocks, geometry.out_h, out_cols, stage_pixels,
                     end_with_portions ? portion_blocks : 0);
}

int64_t FilterCut::GroupRowBlocks() const {
  const int64_t row_block_bytes =
      std::min(NumPixels(), chunk_blocks * kBlockTerms) * sizes.tile_rows * sizes.element_bytes;
  // Joined, all rows read the same numbers.
  const int64_t together =
      joined ? kMostGroupRowBlocks
             : std::clamp<int64_t>(kGroupBytes / row_block_bytes, 1, kMostGroupRowBlocks);
  return CeilDiv(row_blocks, CeilDiv(row_blocks, together));  // groups alike
}

int64_t FilterCut::SumBytes() const {
  return TilesOf(passes.front()) * sizes.tile_sums * int64_t{sizeof(double)};
}

int64_t FilterCut::MostBlockPixels() const {
  int64_t most = 0;
  for (const PixelBlock& block : blocks) most = std::max(most, block.num_pixels());
  return most;
}

// Where every thread has a whole run, and room for all its sums in its own cache.
bool FilterCut::PaysToDealRuns() const {
  if (num_threads == 1) return false;
  return NumBlocks() >= num_threads * kRunBlocks &&
         SumBytes() <= std::min(kDealtSumBytes, kSumBytes / num_threads);
}

// Single blocks are dealt where threads have some each but no run, and room for all their sums.
// These go from one thread's cache to another's, as shared operands do, for which several threads
// wait for each other besides.
bool FilterCut::PaysToDealBlocks() const {
  constexpr int64_t kFewestThreads = 3, kFewestBlocks = 2;  // of a thread
  if (num_threads < kFewestThreads || NumBlocks() < kFewestBlocks * num_threads) return false;
  if (NumBlocks() >= kRunBlocks * num_threads) return false;
  const double sum_bytes = AllSumBytes();  // of a block
  const double block_bytes =
      Product(kBlockTerms, geometry.in_c + geometry.out_c, sizes.element_bytes);
  return 2 * sum_bytes <= block_bytes &&
         Product(NumBlocks()) * sum_bytes <=
             Product(std::min(kDealtBlockBytes * num_threads, kSumBytes));
}

int64_t FilterCut::PortionsAtOnce() const {
  if (num_threads == 1) return 1;
  if (deals_portions) return std::min(NumPortions(), kSumBytes / SumBytes());
  int64_t stage_runs = 1;
  for (const PixelStage& stage : stages) {
    stage_runs =
        std::max(stage_runs, CeilDiv(stage.block_end, kRunBlocks) - stage.block_begin / kRunBlocks);
  }
  const int64_t wanted_runs = CeilDiv(kTilesPerThread * num_threads, TilesOf(passes.front()));
  return std::clamp<int64_t>(std::min(wanted_runs, kSumBytes / SumBytes()), 1, stage_runs);
}

std::vector<FilterCut::Share> FilterCut::Shares(const Pass& pass, int64_t first,
                                                int64_t last) const {
  const int64_t tiles = TilesOf(pass), first_block = first * portion_blocks;
  const int64_t work = tiles * (std::min(last * portion_blocks, NumBlocks()) - first_block);
  std::vector<Share> shares;
  for (int64_t portion = first; portion < last; ++portion) {
    const int64_t begin = portion * portion_blocks;
    const int64_t num_blocks = std::min(portion_blocks, NumBlocks() - begin);
    int64_t tile = 0;
    for (int64_t thread = 1; thread <= num_threads; ++thread) {
      const int64_t into = work * thread / num_threads - tiles * (begin - first_block);
      const int64_t end = std::clamp<int64_t>(into / num_blocks, tile, tiles);
      if (end > tile) shares.push_back({portion, tile, end});
      tile = end;
    }
  }
  return shares;
}

bool FilterCut::Alike(const PixelStage& a, const PixelStage& b) const {
  const int64_t count = a.block_end - a.block_begin;
  if (b.block_end - b.block_begin != count) return false;
  if (a.block_begin % portion_blocks != b.block_begin % portion_blocks) return false;
  for (int64_t i = 0; i < count; ++i) {
    PixelBlock one = blocks[static_cast<size_t>(a.block_begin + i)];
    const PixelBlock& other = blocks[static_cast<size_t>(b.block_begin + i)];
    const int64_t images = b.output.image_begin - a.output.image_begin;
    one.image_begin += images;
    one.image_end += images;
    if (one != other) return false;
  }
  return true;
}

std::span<const PixelStage> FilterCut::StagesOfPortion(int64_t portion) const {
  return StagesOfBlocks(stages, {portion * portion_blocks, (portion + 1) * portion_blocks});
}

AxisGrid FilterCut::MakeRows() const {
  const ConvGeometry& g = geometry;
  if (joined && inputs_in_lanes) return {0, 1, g.out_h, 1, 0, 0};
  return joined ? PaddedGrid(g.out_h, g.stride_h, g.dilation_h, g.pad_top, g.kernel_h)
                : InputGrid(g.in_h, g.stride_h, g.dilation_h, g.pad_top, g.kernel_h, true);
}

AxisGrid FilterCut::MakeCols() const {
  const ConvGeometry& g = geometry;
  if (joined && inputs_in_lanes) {
    return SharesColumns(g) ? AxisGrid{0, 1, PaddedWidth(), g.stride_w, 0, 0}
                            : AxisGrid{0, 1, g.out_w * g.kernel_w, g.kernel_w, 0, 0};
  }
  if (joined) {
    AxisGrid grid = PaddedGrid(g.out_w, g.stride_w, g.dilation_w, g.pad_left, g.kernel_w);
    if (sizes.pairs) grid.stride *= 2;
    return grid;
  }
  // Planes are used, or transposed, by whole rows.
  const bool sparse = format == DataFormat::kNHWC;
  return !sizes.pairs ? InputGrid(g.in_w, g.stride_w, g.dilation_w, g.pad_left, g.kernel_w, sparse)
                      : PairGrid(g.in_w, g.out_w, g.stride_w, g.dilation_w, g.pad_left, g.kernel_w,
                                 sparse || PlanesHoldPairs());
}

FilterCut::TilePlace FilterCut::PlaceOf(int64_t tile) const {
  const int64_t panel_tiles = row_blocks * tile_taps;
  const int64_t group_tiles = group_row_blocks * tile_taps;
  const int64_t panel = tile / panel_tiles, in_panel = tile % panel_tiles;
  const int64_t group = in_panel / group_tiles, in_group = in_panel % group_tiles;
  const int64_t first_row_block = group * group_row_blocks;
  const int64_t group_rows = std::min(group_row_blocks, row_blocks - first_row_block);
  const int64_t tap = in_group / group_rows, row_block = in_group % group_rows;
  return {panel, first_row_block + row_block, tap, tile - row_block + group_rows,
          tile - in_group + group_rows * tile_taps};
}

Slab FilterCut::GridSlab(const PixelStage& stage) const {
  const Slab& out = stage.output;
  const int64_t begin = rows.IndexOf(out.row_begin, 0);
  const int64_t end = rows.IndexOf(out.row_end - 1, geometry.kernel_h - 1) + 1;
  const int64_t first = std::clamp<int64_t>(begin, 0, rows.count);
  return {out.image_begin, out.image_end, first, std::clamp(end, first, rows.count)};
}

int64_t FilterCut::InputWidth(const Pass& pass) const {
  if (inputs_in_lanes) {
    return joined ? pass.num_groups() * ColumnNumbers() : pass.num_panels() * sizes.panels.cols;
  }
  if (joined) return PackedPixel(pass.num_groups() * geometry.group_in_c);
  const int64_t block = InputIsPlanar() ? 1 : ChannelBlock();
  return (pass.group_end - pass.group_begin) * RoundUp(geometry.group_in_c, block);
}

int64_t FilterCut::OutputWidth(const Pass& pass) const {
  if (inputs_in_lanes) return PackedPixel(pass.num_groups() * geometry.group_out_c);
  return pass.num_panels() * sizes.panels.cols;
}

int64_t FilterCut::PixelNumbers(const Pass& pass) const {
  return GridPixels() * InputWidth(pass) + OutputWidth(pass);
}

Slab FilterCut::PaddedSlab(const PixelStage& stage) const {
  const Slab& out = stage.output;
  const ConvGeometry& g = geometry;
  return {out.image_begin, out.image_end, out.row_begin * g.stride_h,
          (out.row_end - 1) * g.stride_h + (g.kernel_h - 1) * g.dilation_h + 1};
}

FilterCut::Elements FilterCut::MostElements() const {
  // A pixel of fewer groups may need a line behind it that one of more groups doesn't.
  int64_t input_width = 0, output_width = 0;
  for (const Pass& pass : passes) {
    input_width = std::max(input_width, InputWidth(pass));
    output_width = std::max(output_width, OutputWidth(pass));
  }
  const bool padded_first = joined && inputs_in_lanes;
  // Where pixels have no surplus columns of their own, the last panel of the last one may read on.
  const int64_t surplus = padded_first ? sizes.panels.cols : 0;
  Elements most;
  for (const PixelStage& stage : stages) {
    const Slab grid = GridSlab(stage), padded = PaddedSlab(stage);
    most.input = std::max(most.input,
                          grid.num_images() * grid.num_rows() * cols.count * input_width + surplus);
    most.output = std::max(most.output, stage.num_pixels(out_cols) * output_width);
    if (!padded_first) continue;
    most.padded = std::max(most.padded,
                           padded.num_images() * padded.num_rows() * PaddedWidth() * geometry.in_c);
  }
  if (UsesInputInPlace()) most.input = 0;
  if (UsesOutputInPlace()) most.output = 0;
  return most;
}

int64_t FilterCut::MostStageSegments() const {
  int64_t most = 0;
  for (const PixelStage& stage : stages) {
    most = std::max(most, stage.block_end - stage.block_begin +
                              stage.output.num_images() * stage.output.num_rows());
  }
  return most * (in_pairs ? 3 : 1);
}

int64_t FilterCut::UnfinishedElements() const {
  if (inputs_in_lanes) return ResultRows() * geometry.out_c;
  return RoundsResult() ? ResultRows() * ResultColumns(passes.front()).size() : 0;
}

int64_t FilterCut::ScratchBytes() const {
  const int64_t sums =
      (one_call ? num_threads : TilesOf(passes.front()) * (portions_at_once + (NumRuns() > 1))) *
      sizes.tile_sums;
  const int64_t packing_threads = deals_portions ? num_threads : 1;
  const int64_t elements =
      (most_elements.input + most_elements.output + most_elements.padded) * packing_threads;
  const int64_t most_segments = lists_stages
                                    ? packing_threads * tile_taps * MostStageSegments()
                                    : num_threads * kBlockTerms * chunk_blocks * (in_pairs ? 3 : 1);
  const int64_t segments = most_segments * 2 * int64_t{sizeof(GemmSegment)};
  const int64_t places = (packing_threads + 1) * RowsHeld() * int64_t{sizeof(int64_t)};
  return (elements + UnfinishedElements()) * sizes.element_bytes + sums * int64_t{sizeof(double)} +
         segments + places + static_cast<int64_t>(blocks.size() * sizeof(PixelBlock));
}

std::string FilterCut::Tiles() const {
  const char* inputs = joined ? "taps and channels" : "channels";
  return fmt::format("{}x{} {} x {}, {} panels, {} blocks in {} runs{}", sizes.tile_rows,
                     sizes.panels.cols, inputs_in_lanes ? "channels" : inputs,
                     inputs_in_lanes ? inputs : "channels", geometry.groups * sizes.panels.count,
                     blocks.size(), NumRuns(), sizes.pairs ? ", in pairs" : "");
}

}  // namespace convgrad
