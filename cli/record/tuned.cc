#include "cli/record/tuned.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/output_file.h"
#include "cli/record/cache_files.h"
#include "cli/record/machine.h"
#include "cli/text/json.h"

namespace convgrad::cli {
namespace {

constexpr const char* kSchema = "convgrad-tuned/1";
constexpr std::uintmax_t kMaxFileBytes = 16 << 20;

// Another build may have other algorithms, or the same at other speeds.
std::string Program() {
  return fmt::format("{} {} {}", kBuild.version, kBuild.commit, kBuild.compiler);
}

// Throws Json::exception for what no such file has.
void ReadInto(const Json& json, const std::string& key, TunedFile& file) {
  if (json.at("schema") != kSchema) {
    file.ignored = "it is of another version";
  } else if (json.at("key") != key) {
    file.ignored = "it is of another machine";
  } else if (json.at("program") != Program()) {
    file.ignored = "another build of this program measured it";
  } else {
    auto choices = json.at("choices").get<std::map<std::string, std::string>>();
    file.date = json.at("date").get<std::string>();
    file.choices = std::move(choices);
  }
}

std::string KeyOf(Isa isa, int num_threads) {
  return MachineKey(DescribeMachine(), isa, num_threads);
}

std::string PathOf(const std::string& key) {
  const std::string folder = CacheFolder();
  return folder.empty() ? "" : folder + "/" + CacheFileName("tuned", key);
}

}  // namespace

std::string TunedKey(const Problem& problem) {
  Problem same = problem;
  same.padding = Padding::kExplicit;
  return same.ToLine();
}

TunedFile ReadTuned(Isa isa, int num_threads) {
  const std::string key = KeyOf(isa, num_threads);
  TunedFile file = {.path = PathOf(key), .ignored = "", .date = "", .choices = {}};
  std::error_code error;
  if (file.path.empty() || !std::filesystem::exists(file.path, error)) return file;
  const auto size = std::filesystem::file_size(file.path, error);  // none for anything but a file
  file.ignored = "it is damaged";
  if (error || size > kMaxFileBytes) return file;
  std::ifstream stream(file.path);
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  try {
    const Json json = TryParseJson(text);
    file.ignored.clear();
    ReadInto(json, key, file);
  } catch (const Json::exception&) {
    file.ignored = "it is damaged";
  }
  return file;
}

void WriteTuned(const TunedFile& file, Isa isa, int num_threads) {
  if (file.path.empty()) {
    ThrowIo("tune/no-place", "tune", "there is no folder to keep what was measured in",
            "set HOME, or XDG_CACHE_HOME to an absolute path");
  }
  std::error_code error;
  std::filesystem::create_directories(CacheFolder(), error);  // the writing will say what is wrong
  const Json json = {{"schema", kSchema},
                     {"key", KeyOf(isa, num_threads)},
                     {"program", Program()},
                     {"date", CurrentDate()},
                     {"choices", file.choices}};
  WriteTextFile(file.path, DumpJson(json, 1));
}

bool ForgetTuned(Isa isa, int num_threads) {
  const std::string path = PathOf(KeyOf(isa, num_threads));
  std::error_code error;
  const bool was_there = !path.empty() && std::filesystem::remove(path, error);
  if (error) ThrowIo("io/failed", path, error.message(), "remove it by hand");
  return was_there;
}

TunedChoice KeptChoices() {
  return [](const Problem& problem, Isa isa, int num_threads) -> std::string {
    using Choices = std::map<std::string, std::string>;
    static std::mutex mutex;
    static std::map<std::pair<Isa, int>, Choices> known;
    const std::lock_guard lock(mutex);
    auto one = known.find({isa, num_threads});
    if (one == known.end()) {
      one = known.emplace(std::pair(isa, num_threads), ReadTuned(isa, num_threads).choices).first;
    }
    if (one->second.empty()) return "";
    const auto choice = one->second.find(TunedKey(problem));
    return choice == one->second.end() ? "" : choice->second;
  };
}

}  // namespace convgrad::cli
