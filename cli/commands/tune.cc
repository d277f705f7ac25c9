// The command `tune`: which algorithms are the quickest here, kept for later runs.
#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "base/resources.h"
#include "cli/bench/tuner.h"
#include "cli/bench/usual_problems.h"
#include "cli/case/operands.h"
#include "cli/case/shared_flags.h"
#include "cli/manifest/manifest.h"
#include "cli/manifest/manifest_flags.h"
#include "cli/manifest/selection.h"
#include "cli/options/commands.h"
#include "cli/record/tuned.h"
#include "cli/session/session.h"
#include "cli/text/values.h"
#include "kernels/kernel_table.h"

namespace convgrad::cli {
namespace {

using Clock = std::chrono::steady_clock;

// The instruction set and threads by which choices are kept, and what a computation may take.
struct Setting {
  Execution execution;
  Isa isa = Isa::kScalar;
  int num_threads = 1;
};

Setting SettingOf(const Arguments& arguments) {
  Setting setting;
  setting.execution = ParseExecution(arguments.flags());
  setting.num_threads = ThreadsOrAll(setting.execution.num_threads);
  setting.execution.num_threads = setting.num_threads;
  setting.isa = setting.execution.isa.value_or(SupportedKernels().front().isa);
  if (FindKernels(setting.isa) == nullptr) {
    ThrowUsage("isa/unsupported", fmt::format("--isa {}", NameOf(setting.isa)),
               "this machine can't run it", "see 'convgrad info'");
  }
  return setting;
}

// Each problem once.
class Problems {
 public:
  void Add(const Problem& problem) {
    if (problem.HasTerms() && keys_.insert(TunedKey(problem)).second) all_.push_back(problem);
  }
  const std::vector<Problem>& all() const { return all_; }

 private:
  std::set<std::string> keys_;
  std::vector<Problem> all_;
};

// Those of cases that leave the choice open.
Problems ProblemsOf(const Session& session, const std::string& path) {
  const ManifestFile file(path);
  const ManifestOptions options;
  ManifestReader reader(file, options);
  const Selection selection(session.arguments.flags());
  Problems problems;
  ManifestPlan plan;
  while (const std::optional<ManifestCase> one = reader.Next()) {
    ++plan.num_cases;
    if (!selection.Takes(*one)) continue;
    ++plan.num_selected;
    const CaseSpec spec = ParseCase(one->request);
    const bool is_open =
        !spec.execution.algorithm && spec.execution.precision == Precision::kStandard;
    if (is_open) problems.Add(Operands(spec, session.console).problem());
  }
  RequireCases(session.arguments, plan);
  return problems;
}

Problems ProblemsToTune(const Session& session) {
  if (!session.arguments.operands().empty()) {
    return ProblemsOf(session, session.arguments.operands().front());
  }
  RefuseManifestFlags(session.arguments.flags());
  Problems problems;
  for (const char* line : UsualProblems()) problems.Add(ParseProblem(line));
  return problems;
}

// Measures one problem, and puts what it found among the choices.
void TuneOne(Session& session, const Setting& setting, const Problem& problem, TunedFile& file) {
  try {
    CheckMemory(problem, setting.execution, problem.OperandBytes(), false);
  } catch (const Error& error) {
    session.console.Warn(fmt::format("{}: not measured: {}", problem.ToLine(), error.what()));
    return;
  }
  const Tuned tuned = TuneProblem(problem, setting.execution);
  if (tuned.quickest == tuned.by_default) {
    file.choices.erase(TunedKey(problem));
    return;
  }
  file.choices[TunedKey(problem)] = tuned.quickest;
  session.console.Result(fmt::format("{}: {} instead of {}, {:.2f} times as fast\n",
                                     problem.ToLine(), tuned.quickest, tuned.by_default,
                                     tuned.gain));
}

// Returns how many problems were measured before time was up.
size_t TuneAll(Session& session, const Setting& setting, const std::vector<Problem>& problems,
               TunedFile& file) {
  constexpr double kDefaultSeconds = 120, kLeastSeconds = 0.001, kMostSeconds = 1e6;
  const std::string* text = session.arguments.Find(FlagId::kSeconds);
  const double seconds = text == nullptr
                             ? kDefaultSeconds
                             : ParseSeconds("--seconds", *text, kLeastSeconds, kMostSeconds);
  const auto stop = Clock::now() + std::chrono::duration<double>(seconds);
  size_t measured = 0;
  for (const Problem& problem : problems) {
    if (measured > 0 && Clock::now() >= stop) break;
    const Progress progress(session.console, fmt::format("{} of {}: {}", measured + 1,
                                                         problems.size(), problem.ToLine()));
    TuneOne(session, setting, problem, file);
    ++measured;
  }
  return measured;
}

ExitCode Forget(Session& session, const Setting& setting) {
  if (!session.arguments.operands().empty() || session.arguments.Has(FlagId::kSeconds)) {
    ThrowUsage("flag/conflict", "--forget", "measures nothing", "give it alone");
  }
  const bool was_there = ForgetTuned(setting.isa, setting.num_threads);
  session.console.Result(was_there ? "forgotten\n" : "there is nothing to forget\n");
  return ExitCode::kOk;
}

}  // namespace

ExitCode Tune(Session& session) {
  const Setting setting = SettingOf(session.arguments);
  if (session.arguments.Has(FlagId::kForget)) return Forget(session, setting);
  TunedFile file = ReadTuned(setting.isa, setting.num_threads);
  const Problems problems = ProblemsToTune(session);
  const size_t measured = TuneAll(session, setting, problems.all(), file);
  WriteTuned(file, setting.isa, setting.num_threads);
  session.console.Result(fmt::format(
      "{} of {} problems measured on {}, {}; {} choices are not the default, kept in {}\n",
      measured, problems.all().size(), NameOf(setting.isa), Plural(setting.num_threads, "thread"),
      file.choices.size(), file.path));
  return ExitCode::kOk;
}

}  // namespace convgrad::cli
