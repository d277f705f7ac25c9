// How a depthwise forward or input gradient is computed plane by plane: how a plane of the source
// is staged, at which distance a result meets a tap, where weights are packed, and what a task
// is. Runs nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "conv/axes/lines.h"
#include "kernels/depthwise/plane.h"
#include "problem/geometry.h"

namespace convgrad {

// Results of one line of rows, from rows of a staged part of a plane.
struct VisitedRows {
  TapLine line;
  int64_t most_live;
  std::vector<PlaneVisit> visits;
  // Lines of the next group of planes that a visit fetches, so that every visit of the part, for
  // every plane of results, fetches as many.
  int64_t lines_a_visit;
};

// Every stride-th column of an input gradient's results, or all of forward's: a plane of its own,
// whose result t meets term i at offsets[i] + t of a staged row. Terms are columns of the filter in
// canonical order, each of all planes that are summed; those that meet no source for any result
// are left out.
struct ColPhase {
  std::vector<int64_t> taps;
  std::vector<int64_t> offsets;
  int64_t first_weight;  // of a plane of results

  int64_t num_terms() const { return static_cast<int64_t>(offsets.size()); }
  // Where the weights of a line of rows begin.
  int64_t WeightsAt(const TapLine& line) const {
    return first_weight + line.packed_tap * num_terms();
  }
};

// Rows of results that are computed together.
struct RowPart {
  Range results, sources;
  std::vector<VisitedRows> lines;
};

struct PlanesCut {
  PlanesCut(const Problem& problem, int num_threads);

  // Problems that a cut fits: every element is one block of terms, the kernels can slide over the
  // filter's rows, and rows of the source fit the cache.
  static bool Fits(const Problem& problem);

  bool forward;
  Dimension rows, cols;
  int64_t num_channels;  // of the operation's input
  // In NHWC (few channels) rows hold all channels, one number each in turn: then they are split
  // into planes, and results merged. A group of planes is what is staged together: an image, or in
  // NCHW a channel of one.
  bool interleaved;
  int64_t num_groups, group_channels;
  int64_t multiplier;
  int64_t compute_bytes, stored_bytes;

  // A channel's planes of the source that are summed, planes of the result made from them.
  int64_t group_sources() const { return forward ? 1 : multiplier; }
  int64_t group_results() const { return forward ? multiplier : 1; }

  // A staged row holds the columns of each residue by the stride (forward) apart, with zeros on
  // both sides: residue r's column number i at r * residue_size + left + i.
  int64_t num_residues, residue_size, left;
  int64_t staged_row() const { return num_residues * residue_size; }
  std::vector<ColPhase> col_phases;
  int64_t num_phases() const { return static_cast<int64_t>(col_phases.size()); }
  bool multiplies_padding = false;  // some result meets a zero beside the row

  // Results are written where they belong, if neither their type nor a width below a vector's nor
  // other channels or phases between them forbid it. Otherwise rows of `width` columns of a phase
  // go through scratch.
  bool direct;
  int64_t width;
  // Results are put together in scratch and written around the caches: a part of so many planes
  // that are whole lines (or a row of all channels) at a time; else 0.
  int64_t streamed_planes = 0;

  std::vector<RowPart> row_parts;
  int64_t groups_of_task = 1;
  int64_t tasks_of_part() const;
  int64_t num_tasks() const;
  int64_t num_taps() const { return rows.kernel * cols.kernel; }

  // Packed weights of one plane of results: by phase of columns, phase of rows and p < stride of
  // the line: [term][row taps p, p + stride, ...]. One line for each phase of rows.
  std::vector<TapLine> row_phases;
  int64_t weights_of_plane = 0;
  int64_t num_weights() const { return weights_of_plane * num_channels * group_results(); }

  // Elements, for the largest task: a staged plane, a plane of results that are not written
  // directly, numbers of the compute type that are not staged yet, or not rounded, and results that
  // are not written yet.
  int64_t staged_plane = 0, out_plane = 0, dense_size = 0, streamed_size = 0;
  int64_t staged_planes() const { return group_channels * group_sources(); }
  int64_t result_planes() const { return group_channels * group_results(); }
  // One group's at a time: phases, and in NHWC planes of results, those of a phase behind each
  // other.
  int64_t out_planes() const { return num_phases() * (interleaved ? result_planes() : 1); }
  int64_t task_bytes() const {
    return (staged_plane * staged_planes() + out_plane * out_planes() + dense_size +
            streamed_size) *
           compute_bytes;
  }

 private:
  void StageColumns();
  void PlaceTerms();
  void CutPixels(int num_threads);
  void DealLines();
  void ChooseStreaming(int64_t result_bytes, int num_threads);
  void MeasureTask();
};

}  // namespace convgrad
