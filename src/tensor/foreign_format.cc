#include "tensor/foreign_format.h"

#include <algorithm>
#include <cctype>

namespace convgrad {
namespace {

struct ForeignFormat {
  std::string_view start;
  const char* what;
};

constexpr ForeignFormat kForeignFormats[] = {
    {std::string_view("PK\x03\x04"), "this is a zip archive, as .npz files are"},
    {std::string_view("PK\x05\x06"), "this is an empty zip archive"},
    {std::string_view("\x1F\x8B"), "this is gzip data: decompress it first"},
    {std::string_view("\x80\x02"), "this is a Python pickle, which is never loaded"},
    {std::string_view("\x80\x03"), "this is a Python pickle, which is never loaded"},
    {std::string_view("\x80\x04"), "this is a Python pickle, which is never loaded"},
    {std::string_view("\x80\x05"), "this is a Python pickle, which is never loaded"},
    {std::string_view("\x89HDF"), "this is an HDF5 file"},
    {std::string_view("version https://git-lfs.github.com/spec/"),
     "this is a Git LFS pointer, not the file itself: run 'git lfs pull'"},
};

// Servers send this in place of a file.
bool IsPage(std::string_view start) {
  std::string text(
      start.substr(std::min(start.find_first_not_of("\xEF\xBB\xBF \t\r\n"), start.size())));
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  for (const char* begin : {"<!doctype", "<html", "<head", "<?xml"}) {
    if (text.starts_with(begin)) return true;
  }
  return false;
}

}  // namespace

std::string ForeignFormatOf(std::string_view start) {
  for (const ForeignFormat& format : kForeignFormats) {
    if (start.starts_with(format.start)) return format.what;
  }
  return IsPage(start) ? "this is an HTML page, not the file: download it again" : "";
}

}  // namespace convgrad
