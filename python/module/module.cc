// The Python module convgrad._core: the tool's own parsing, computing and checking for arrays of
// the calling process. What people call is in python/convgrad.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <deque>
#include <exception>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.h"
#include "base/error.h"
#include "base/parallel.h"
#include "cli/case/call.h"
#include "cli/record/machine.h"
#include "problem/op.h"
#include "tensor/tensor_hash.h"

namespace convgrad::python {
namespace {

namespace nb = nanobind;

using Arguments = std::vector<std::pair<std::string, std::string>>;
// By its key: an array, and whether its 16-bit integers are bfloat16 numbers.
using Arrays = std::vector<std::tuple<std::string, nb::object, bool>>;

// A call whose tensors are the arrays, which it keeps alive.
class BorrowingCall {
 public:
  BorrowingCall(const std::string& op, const Arguments& arguments, const Arrays& arrays)
      : call_{op, arguments, {}} {
    for (const auto& [key, array, is_bfloat16] : arrays) {
      borrowed_.emplace_back(key, array, is_bfloat16);
      call_.tensors.emplace_back(key, borrowed_.back().tensor());
    }
  }
  const cli::Call& call() const { return call_; }

 private:
  std::deque<BorrowedArray> borrowed_;
  cli::Call call_;
};

// Returns what `work` does, computed while other threads of Python run, in the floating-point mode
// that results are promised in.
auto WithoutPython(const auto& work) {
  const nb::gil_scoped_release released;
  const ScopedFpEnvironment environment;
  return work();
}

// An array, and the name of its type.
std::pair<nb::object, std::string> Compute(const std::string& op, const Arguments& arguments,
                                           const Arrays& arrays) {
  const BorrowingCall borrowing(op, arguments, arrays);
  Tensor result = WithoutPython([&] { return cli::ComputeCall(borrowing.call()); });
  const std::string dtype = InfoOf(result.dtype()).name;
  return {ToNumpy(std::move(result)), dtype};
}

// The case's entry of a report, as JSON; the same for people; each element's error, or None.
std::tuple<std::string, std::string, nb::object> Check(const std::string& op,
                                                       const Arguments& arguments,
                                                       const Arrays& arrays, bool with_errors) {
  const BorrowingCall borrowing(op, arguments, arrays);
  cli::CallVerdict verdict =
      WithoutPython([&] { return cli::CheckCall(borrowing.call(), with_errors); });
  nb::object errors = nb::none();
  if (verdict.entry.check->errors) errors = ToNumpy(std::move(*verdict.entry.check->errors));
  return {cli::RenderEntry(verdict.entry), verdict.text, errors};
}

std::string Hash(nb::handle array, bool is_bfloat16) {
  const BorrowedArray borrowed("array", array, is_bfloat16);
  return WithoutPython([&] { return DataHash(borrowed.tensor()); });
}

// Name, keys of operands, key of the sizes or None.
std::vector<std::tuple<std::string, std::vector<std::string>, std::optional<std::string>>> Ops() {
  std::vector<std::tuple<std::string, std::vector<std::string>, std::optional<std::string>>> ops;
  for (const OpInfo& info : AllOps()) {
    std::optional<std::string> sizes;
    if (info.sizes_flag != nullptr) sizes = info.sizes_flag;
    ops.push_back({info.name, {NameOf(info.operands[0]), NameOf(info.operands[1])}, sizes});
  }
  return ops;
}

// An error of ours as the exception that convgrad._errors makes of it.
void RaiseError(const std::exception_ptr& thrown, void* /*payload*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    const nb::object exception =
        nb::module_::import_("convgrad._errors")
            .attr("error_of")(cli::NameArguments(error.message()), error.code(),
                              cli::NameArguments(error.fix()), static_cast<int>(error.exit_code()));
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  }
}

}  // namespace

NB_MODULE(_core, module) {
  nb::register_exception_translator(RaiseError);
  module.def("compute", Compute, nb::arg("op"), nb::arg("arguments"), nb::arg("arrays"));
  module.def("check", Check, nb::arg("op"), nb::arg("arguments"), nb::arg("arrays"),
             nb::arg("with_errors"));
  module.def("data_hash", Hash, nb::arg("array"), nb::arg("is_bfloat16"));
  module.def("ops", Ops);
  module.attr("__version__") = cli::kBuild.version;
}

}  // namespace convgrad::python
