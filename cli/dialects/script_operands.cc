#include "cli/dialects/script_operands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>

#include "cli/text/json.h"
#include "cli/text/unicode.h"
#include "verify/truth/normal_quantile.h"

namespace convgrad::cli {
namespace {

constexpr const char* kImports = R"(import sys

import numpy as np
)";

// The script does the operations of fill.cc and normal_quantile.cc in their order: each is rounded
// exactly, so every element has the same bits.
constexpr const char* kFillFunctions = R"(

def mix(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def random_bits(seed, role, count):
    gamma = np.uint64(0x9E3779B97F4A7C15)
    seed = np.array([seed], np.uint64)
    key = mix(mix(seed + gamma) + gamma * np.uint64(role + 1))
    return mix(key + gamma * np.arange(1, count + 1, dtype=np.uint64))


def integers(bits):
    piece = np.arange(bits.size, dtype=np.uint64) >> np.uint64(20)
    zero = np.zeros(bits.size, bool)
    halvings = np.zeros(bits.size, np.uint64)
    while piece.any():
        halvings += piece > 0
        piece >>= np.uint64(2)
    thin = halvings > 0
    zero[thin] = bits[thin] >> (np.uint64(64) - halvings[thin]) != 0
    value = np.where(bits & np.uint64(1) != 0, 2.0, 1.0)
    value = np.where(bits & np.uint64(2) != 0, -value, value)
    return np.where(zero, 0.0, value)


def logarithm(x):
    m, exponent = np.frexp(x)
    low = m < 0.707106781186547524401
    m = np.where(low, m * 2, m)
    exponent = exponent - low
    t = (m - 1) / (m + 1)
    series = np.zeros_like(t)
    for k in range(21, 0, -2):
        series = series * (t * t) + 1.0 / k
    return exponent * 0.693147180559945309417 + 2 * t * series


def polynomial(coefficients, x):
    total = np.zeros_like(x)
    for coefficient in coefficients:
        total = total * x + coefficient
    return total


def normals(bits):
    p = ((bits >> np.uint64(29)).astype(np.float64) + 0.5) * 2.0**-35
    q = p - 0.5
    r = 0.180625 - q * q
    x = q * polynomial(CENTRE_TOP, r) / polynomial(CENTRE_BOTTOM, r)
    tail = np.abs(q) > 0.425
    p, q = p[tail], q[tail]
    r = np.sqrt(-logarithm(np.where(q < 0, p, 1 - p))) - 1.6
    y = polynomial(TAIL_TOP, r) / polynomial(TAIL_BOTTOM, r)
    x[tail] = np.where(q < 0, -y, y)
    return x


def uniforms(bits, low, high):
    weight = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return np.clip(low * (1 - weight) + high * weight, low, high)


def narrow(x, dtype):
    if dtype != "bfloat16":
        return x.astype(dtype)
    _, exponent = np.frexp(x)
    last = np.maximum(exponent, -125) - 8  # the exponent of the last bit that bfloat16 keeps
    return np.ldexp(np.rint(np.ldexp(x, -last)), last).astype(np.float32)


def fill(kind, shape, dtype, seed, role, *arguments):
    count = int(np.prod(shape, dtype=np.int64))
    if kind in ("zeros", "ones", "impulse"):
        x = np.full(count, float(kind == "ones"))
        if kind == "impulse":
            x[arguments[0]] = 1
    else:
        makers = {"integer": integers, "normal": normals, "uniform": uniforms}
        with np.errstate(over="ignore"):
            x = makers[kind](random_bits(seed, role, count), *arguments)
    return narrow(x, dtype).reshape(shape)
)";

constexpr const char* kLoadFunction = R"(

def load(path, name, dtype):
    x = np.load(path) if name is None else np.load(path)[name]
    if dtype != "bfloat16" or x.dtype == np.float32:
        return x
    return (x.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
)";

constexpr const char* kSaveFunction = R"(

def save(result, dtype, check):
    path = sys.argv[1] if len(sys.argv) > 1 else "result.npy"
    result = np.ascontiguousarray(result)
    if dtype == "bfloat16":
        result = (result.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    np.save(path, result)
    print(check, "--actual", path)

)";

std::string Coefficients(const char* name, std::span<const double> values) {
  return fmt::format("{} = ({})\n", name, fmt::join(values, ", "));
}

std::string FillPart() {
  const NormalQuantileCoefficients coefficients = CoefficientsOfNormalQuantile();
  return "\n# The coefficients of Wichura's AS241, from the highest power down.\n" +
         Coefficients("CENTRE_TOP", coefficients.centre_top) +
         Coefficients("CENTRE_BOTTOM", coefficients.centre_bottom) +
         Coefficients("TAIL_TOP", coefficients.tail_top) +
         Coefficients("TAIL_BOTTOM", coefficients.tail_bottom) + kFillFunctions;
}

std::string FillCall(const ExportOperand& operand, const char* dtype) {
  const FillSpec& fill = *operand.fill;
  const std::string text = fill.ToString();
  std::string arguments;
  if (fill.kind == FillSpec::Kind::kUniform) {
    arguments = fmt::format(", {}, {}", fill.low, fill.high);
  } else if (fill.kind == FillSpec::Kind::kImpulse) {
    arguments = fmt::format(", {}", fill.index);
  }
  return fmt::format(
      "fill({}, {}, \"{}\", {}, {}{})", PythonString(text.substr(0, text.find_first_of(":@#"))),
      PythonTuple(operand.shape), dtype, operand.seed, static_cast<int>(operand.role), arguments);
}

std::string LoadCall(const ExportCase& one, const ExportOperand& operand, const char* dtype) {
  const TensorPath& path = operand.path;
  if (IsStandardStream(path.file) || FormatOfName(path.file) == TensorFormat::kSafetensors) {
    one.Refuse(
        fmt::format("the script can't read '{}'; give it as .npy, .npz or fill:SPEC", path.file));
  }
  return fmt::format("load({}, {}, \"{}\")", PythonString(path.file),
                     path.name ? PythonString(*path.name) : "None", dtype);
}

}  // namespace

std::string PythonString(const std::string& text) {
  return DumpJson(Json(ToValidUtf8(text)));
}

std::string PythonTuple(const Shape& shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

std::string ScriptHead(const ExportCase& one, const std::string& imports) {
  const char* const dtype = InfoOf(one.problem.dtype).name;
  bool has_fill = false, has_file = false;
  std::string lines;
  for (const ExportOperand& operand : one.operands) {
    lines += fmt::format("{} = {}\n", NameOf(operand.role),
                         operand.fill ? FillCall(operand, dtype) : LoadCall(one, operand, dtype));
    (operand.fill ? has_fill : has_file) = true;
  }
  return fmt::format(
             "\"\"\"{}: {}.\n\nWrites the result to the file that it is given, or to "
             "result.npy, and prints how convgrad judges it.\n\"\"\"\n",
             one.dialect, one.problem.ToLine()) +
         kImports + imports + (has_fill ? FillPart() : "") + (has_file ? kLoadFunction : "") +
         kSaveFunction + "\n" + lines;
}

std::string ScriptTail(const ExportCase& one) {
  return fmt::format("save(result, \"{}\", {})\n", InfoOf(one.problem.dtype).name,
                     PythonString(one.check_line));
}

}  // namespace convgrad::cli
