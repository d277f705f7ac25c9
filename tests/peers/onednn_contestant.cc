// oneDNN as a contestant, of version 2 or 3 (they make primitives differently).
#include <fmt/format.h>
#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <unordered_map>

#include "peers/contestant.h"

namespace convgrad::peers {
namespace {

using dnnl::memory;

std::optional<memory::data_type> DataType(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return memory::data_type::f16;
    case DType::kBFloat16: return memory::data_type::bf16;
    case DType::kFloat32: return memory::data_type::f32;
    default: return std::nullopt;  // float64: no convolution on a processor, in any version
  }
}

// Which tensors oneDNN may hold in formats of its own choice.
enum class Formats { kPlain, kOwnFilter, kOwnAll };

const char* NameOf(Formats formats) {
  switch (formats) {
    case Formats::kPlain: return "plain formats";
    case Formats::kOwnFilter: return "own filter format";
    case Formats::kOwnAll: return "own formats";
  }
  return "";
}

// A problem as oneDNN counts: channels before pixels, groups apart, dilation 0 for none. The
// filter, [kh, kw, in, out] with the groups side by side in `out`, is hwigo; so is a depthwise one,
// [kh, kw, group, multiplier].
struct Layout {
  Layout(const Problem& problem, memory::data_type type)
      : Layout(problem.geometry, type,
               problem.data_format == DataFormat::kNHWC ? memory::format_tag::nhwc
                                                        : memory::format_tag::nchw) {}
  Layout(const ConvGeometry& g, memory::data_type type, memory::format_tag data)
      : input({g.batch, g.in_c, g.in_h, g.in_w}, type, data),
        filter(g.groups == 1
                   ? memory::desc({g.out_c, g.in_c, g.kernel_h, g.kernel_w}, type,
                                  memory::format_tag::hwio)
                   : memory::desc({g.groups, g.group_out_c, g.group_in_c, g.kernel_h, g.kernel_w},
                                  type, memory::format_tag::hwigo)),
        output({g.batch, g.out_c, g.out_h, g.out_w}, type, data),
        strides{g.stride_h, g.stride_w},
        dilations{g.dilation_h - 1, g.dilation_w - 1},
        before{g.pad_top, g.pad_left},
        after{g.pad_bottom, g.pad_right} {}

  memory::desc input, filter, output;
  memory::dims strides, dilations, before, after;
};

memory::desc Free(const memory::desc& desc) {
#if DNNL_VERSION_MAJOR >= 3
  return {desc.get_dims(), desc.get_data_type(), memory::format_tag::any};
#else
  return {desc.dims(), desc.data_type(), memory::format_tag::any};
#endif
}

Layout Freed(Layout layout, Formats formats) {
  if (formats != Formats::kPlain) layout.filter = Free(layout.filter);
  if (formats == Formats::kOwnAll) layout.input = Free(layout.input);
  if (formats == Formats::kOwnAll) layout.output = Free(layout.output);
  return layout;
}

dnnl::primitive_attr ScratchOfOurs() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

// `hint` is the forward description that the backward ones want.
template <class Kind, class... Arguments, class... Hint>
typename Kind::primitive_desc Describe(const dnnl::engine& engine,
                                       const std::tuple<Arguments...>& arguments,
                                       const Hint&... hint) {
  return std::apply(
      [&](const auto&... values) {
#if DNNL_VERSION_MAJOR >= 3
        return typename Kind::primitive_desc(engine, values..., hint..., ScratchOfOurs());
#else
        return typename Kind::primitive_desc(typename Kind::desc(values...), ScratchOfOurs(),
                                             engine, hint...);
#endif
      },
      arguments);
}

// A primitive, and the formats that it takes and gives.
struct Recipe {
  dnnl::primitive primitive;
  memory::desc input, filter, output, scratch;
  std::string implementation;
};

Recipe MakeRecipe(const dnnl::engine& engine, Direction direction, const Layout& l) {
  const auto direct = dnnl::algorithm::convolution_direct;
  const auto propagation = direction == Direction::kForward ? dnnl::prop_kind::forward_inference
                                                            : dnnl::prop_kind::forward_training;
  const auto forward = Describe<dnnl::convolution_forward>(
      engine, std::tuple(propagation, direct, l.input, l.filter, l.output, l.strides, l.dilations,
                         l.before, l.after));
  if (direction == Direction::kForward) {
    return {dnnl::convolution_forward(forward),
            forward.src_desc(),
            forward.weights_desc(),
            forward.dst_desc(),
            forward.scratchpad_desc(),
            forward.impl_info_str()};
  }
  const std::tuple backward(direct, l.input, l.filter, l.output, l.strides, l.dilations, l.before,
                            l.after);
  if (direction == Direction::kBackpropInput) {
    const auto data = Describe<dnnl::convolution_backward_data>(engine, backward, forward);
    return {dnnl::convolution_backward_data(data),
            data.diff_src_desc(),
            data.weights_desc(),
            data.diff_dst_desc(),
            data.scratchpad_desc(),
            data.impl_info_str()};
  }
  const auto weights = Describe<dnnl::convolution_backward_weights>(engine, backward, forward);
  return {dnnl::convolution_backward_weights(weights),
          weights.src_desc(),
          weights.diff_weights_desc(),
          weights.diff_dst_desc(),
          weights.scratchpad_desc(),
          weights.impl_info_str()};
}

// One tensor: as given, and as the primitive wants it; the same memory where both agree.
struct Side {
  Side(const dnnl::engine& engine, const memory::desc& given, const memory::desc& wanted,
       const void* data)
      : plain(given, engine, const_cast<void*>(data)),  // oneDNN has no pointers to const
        own(given == wanted ? plain : memory(wanted, engine)) {}

  bool same() const { return plain.get_data_handle() == own.get_data_handle(); }

  memory plain, own;
};

class OneDnn : public Contestant {
 public:
  OneDnn(const Problem& problem, const Tensor& first, const Tensor& second, const Layout& plain,
         Formats formats, int num_threads)
      : problem_(problem),
        num_threads_(num_threads),
        formats_(formats),
        recipe_(MakeRecipe(engine_, direction(), Freed(plain, formats))),
        result_(problem.dtype, problem.ResultShape()),
        input_(engine_, plain.input, recipe_.input, DataOf(Role::kInput, first, second)),
        filter_(engine_, plain.filter, recipe_.filter, DataOf(Role::kFilter, first, second)),
        output_(engine_, plain.output, recipe_.output, DataOf(Role::kOutBackprop, first, second)) {
    const bool forward = direction() == Direction::kForward;
    const bool to_input = direction() == Direction::kBackpropInput;
    const bool to_filter = direction() == Direction::kBackpropFilter;
    arguments_ = {{to_input ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, input_.own},
                  {to_filter ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, filter_.own},
                  {forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, output_.own},
                  {DNNL_ARG_SCRATCHPAD, memory(recipe_.scratch, engine_)}};
    for (Side* side : {&input_, &filter_, &output_}) {
      if (side->same()) continue;
      if (side->plain.get_data_handle() == result_.raw()) {
        after_.push_back({dnnl::reorder(side->own, side->plain), side->own, side->plain});
      } else {
        before_.push_back({dnnl::reorder(side->plain, side->own), side->plain, side->own});
      }
    }
  }

  void Run() override {
    omp_set_num_threads(num_threads_);
    for (Move& move : before_) move.reorder.execute(stream_, move.from, move.to);
    recipe_.primitive.execute(stream_, arguments_);
    for (Move& move : after_) move.reorder.execute(stream_, move.from, move.to);
    stream_.wait();
  }

  const Tensor& Result() const override { return result_; }
  // Its reference loops take seconds.
  bool is_optimized() const { return !recipe_.implementation.starts_with("ref"); }
  std::string How() const override {
    return fmt::format("{}, {}", recipe_.implementation, NameOf(formats_));
  }

 private:
  struct Move {
    dnnl::reorder reorder;
    memory from, to;
  };

  Direction direction() const { return InfoOf(problem_.op).direction; }

  const void* DataOf(Role role, const Tensor& first, const Tensor& second) const {
    const OpInfo& op = InfoOf(problem_.op);
    if (role == op.operands[0]) return first.raw();
    return role == op.operands[1] ? second.raw() : result_.raw();
  }

  const dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  const Problem problem_;
  const int num_threads_;
  const Formats formats_;
  Recipe recipe_;
  Tensor result_;
  Side input_, filter_, output_;
  std::vector<Move> before_, after_;
  std::unordered_map<int, memory> arguments_;
};

}  // namespace

std::vector<std::unique_ptr<Contestant>> MakeOneDnn(const Problem& problem, const Tensor& first,
                                                    const Tensor& second, int num_threads,
                                                    std::string& refusal) {
  std::vector<std::unique_ptr<Contestant>> ways;
  const auto type = DataType(problem.dtype);
  if (!type) {
    refusal = fmt::format("no {} on a processor", InfoOf(problem.dtype).name);
    return ways;
  }
  omp_set_num_threads(num_threads);  // primitives are made for a number of threads
  for (const Formats formats : {Formats::kPlain, Formats::kOwnFilter, Formats::kOwnAll}) {
    try {
      const Layout plain(problem, *type);
      auto way = std::make_unique<OneDnn>(problem, first, second, plain, formats, num_threads);
      if (way->is_optimized())
        ways.push_back(std::move(way));
      else
        refusal = "only its reference implementation";
    } catch (const dnnl::error& error) {
      if (ways.empty()) refusal = error.what();
    }
  }
  return ways;
}

std::string OneDnnName() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

}  // namespace convgrad::peers
