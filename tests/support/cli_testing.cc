#include "support/cli_testing.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

namespace convgrad::testing {
namespace {

using nlohmann::json;

// The shells that tests start find it by its name: another file, or none, would go unnoticed, and
// whatever tool is installed be tested instead.
std::string FindBinary() {
  const char* other = std::getenv("CONVGRAD_TEST_BINARY");
  const std::filesystem::path binary =
      std::filesystem::canonical(other != nullptr ? other : CONVGRAD_BINARY);
  if (binary.filename() != "convgrad") {
    throw std::runtime_error(binary.string() + ": its name is not convgrad");
  }
  return binary;
}

const std::string kBinary = FindBinary();  // before anything changes the working directory

// Leaves of the environment what programs need to start: the tool reads other variables too
// (docs/reference/environment.md), and those of a CI system or a cluster are none of the test's.
void KeepNeededVariables() {
  constexpr std::string_view kNeeded[] = {"PATH=", "HOME=", "TMPDIR=", "LD_", "ASAN_",    "UBSAN_",
                                          "LSAN_", "TSAN_", "LANG=",   "LC_", "CONVGRAD_"};
  std::vector<std::string> others;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    const bool is_needed =
        std::any_of(std::begin(kNeeded), std::end(kNeeded),
                    [&](std::string_view start) { return text.starts_with(start); });
    if (!is_needed) others.emplace_back(text.substr(0, text.find('=')));
  }
  for (const std::string& name : others) unsetenv(name.c_str());
}

// A process gets this, too, from whoever runs the tests: file modes, and files that were left open.
void ForgetParents() {
  umask(022);
  close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
}

// In the child: everything up to the shell.
[[noreturn]] void BecomeShell(const std::string& folder, const std::string& command,
                              const std::string& out, const std::string& err) {
  const std::string path =
      std::filesystem::path(Binary()).parent_path().string() + ":" + std::getenv("PATH");
  setenv("PATH", path.c_str(), 1);
  KeepNeededVariables();
  setenv("HOME", folder.c_str(), 1);
  setenv("XDG_CACHE_HOME", PeaksFolder().c_str(), 1);
  ForgetParents();
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
  dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
  if (chdir(folder.c_str()) == 0) execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  _exit(127);
}

const valijson::Schema& ReportSchema() {
  static const valijson::Schema* const schema = [] {
    const json document = json::parse(ReadBytes(CONVGRAD_SOURCE_DIR "/data/report.schema.json"));
    auto* parsed = new valijson::Schema;
    valijson::SchemaParser(valijson::SchemaParser::kDraft7)
        .populateSchema(valijson::adapters::NlohmannJsonAdapter(document), *parsed);
    return parsed;
  }();
  return *schema;
}

void ExpectValid(const json& report) {
  valijson::Validator validator;
  valijson::ValidationResults results;
  if (validator.validate(ReportSchema(), valijson::adapters::NlohmannJsonAdapter(report),
                         &results)) {
    return;
  }
  for (const auto& error : results) {
    std::string place;
    for (const std::string& part : error.context) place += part;
    ADD_FAILURE() << place << ": " << error.description;
  }
  ADD_FAILURE() << report.dump(1);
}

}  // namespace

std::string Binary() {
  return kBinary;
}

std::string PeaksFolder() {
  return std::filesystem::path(Binary()).parent_path() / "peaks_of_tests";
}

ShellResult CliTest::ShIn(const std::string& folder, const std::string& command) const {
  const ScratchDirectory streams;
  const pid_t child = fork();
  if (child == 0) BecomeShell(folder, command, streams / "out", streams / "err");
  const int exit_code = ExitCodeOf(child);
  return {exit_code, ReadBytes(streams / "out"), ReadBytes(streams / "err")};
}

ShellResult CliTest::Sh(const std::string& command) const {
  return ShIn(scratch_.path(), command);
}

// A shell starts background commands with SIGINT ignored, and nohup all with SIGHUP, unless told
// otherwise.
ShellResult CliTest::Interrupt(const std::string& command, const std::string& signal,
                               const std::string& condition) const {
  return Sh("env --default-signal " + command + " 2>err & child=$!; " +
            "for i in $(seq 1200); do sleep 0.05; " + condition + " && break; done; " + "kill -" +
            signal + " $child; wait $child; code=$?; cat err >&2; rm err; exit $code");
}

std::string CliTest::OnOneCpu() const {
  const ShellResult allowed = Sh("taskset -cp $$ | sed 's/.*: //; s/[-,].*//'");
  if (allowed.exit_code != 0 || allowed.out.empty()) return "";
  return "taskset -c " + allowed.out.substr(0, allowed.out.size() - 1) + " ";
}

pid_t CliTest::Start(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), "convgrad");
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  const pid_t child = fork();
  if (child != 0) return child;
  // Sanitizers would turn a SIGSEGV into an exit code.
  setenv("ASAN_OPTIONS", "handle_segv=0:handle_abort=0", 1);
  setenv("UBSAN_OPTIONS", "handle_segv=0:handle_abort=0", 1);
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) std::signal(signal, SIG_DFL);
  const int null = open("/dev/null", O_RDWR);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, stream);
  KeepNeededVariables();
  ForgetParents();
  if (chdir(scratch_.path().c_str()) == 0) execv(Binary().c_str(), words.data());
  _exit(127);
}

int CliTest::ExitCodeOf(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void CliTest::WriteFloats(const std::string& name, const Shape& shape,
                          const std::vector<float>& values) const {
  Tensor tensor(DType::kFloat32, shape);
  ASSERT_EQ(tensor.num_elements(), static_cast<int64_t>(values.size()));
  std::memcpy(tensor.mutable_raw(), values.data(), values.size() * sizeof(float));
  WriteNpy(Path(name), tensor);
}

void CliTest::WriteIntegers(const std::string& name, const std::vector<int64_t>& values) const {
  Tensor tensor(DType::kInt64, {static_cast<int64_t>(values.size())});
  std::memcpy(tensor.mutable_raw(), values.data(), values.size() * sizeof(int64_t));
  WriteNpy(Path(name), tensor);
}

std::vector<float> CliTest::ReadFloats(const std::string& name) const {
  const NpyArray array = ReadNpy(Path(name));
  const float* data = array.tensor.data<float>();
  return {data, data + array.tensor.num_elements()};
}

bool CliTest::Exists(const std::string& name) const {
  return std::filesystem::exists(Path(name));
}

json CliTest::Report(const std::string& name) const {
  return ReportIn(ReadBytes(Path(name)));
}

json CliTest::ReportIn(const std::string& text) const {
  json report = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (report.is_discarded()) {
    ADD_FAILURE() << "no JSON: " << text;
    return json::object();
  }
  ExpectValid(report);
  return report;
}

nlohmann::json WithoutTimes(nlohmann::json report) {
  for (nlohmann::json& entry : report["benchmarks"]) {
    for (const char* key : {"real_time", "cpu_time", "bytes_per_second", "gflops", "timing"}) {
      entry.erase(key);
    }
    if (entry.contains("run")) entry["run"].erase("peak_rss_bytes");
  }
  for (const char* key : {"date", "load"}) report["context"].erase(key);
  report["context"]["convgrad"].erase("command");
  return report;
}

}  // namespace convgrad::testing
