// Results left for review where a golden fails or is missing: where they lie, and how one is
// accepted. Must not know how they are compared.
#pragma once

#include <string>

namespace convgrad::cli {

// A result that waits to become a golden, or not.
struct PendingRecord {
  std::string path;
  std::string golden;  // the path of the golden that it would replace
};

// In `directory`, for the golden that a manifest names `golden`: "golden/y.npy" is left as
// DIRECTORY/golden/y.npy.new, "../y.npy" as DIRECTORY/__/y.npy.new, "/y.npy" as
// DIRECTORY/y.npy.new; of "y.safetensors:NAME" the file counts.
std::string PendingPath(const std::string& directory, const std::string& golden);

// Makes the directories in which PendingPath(directory, golden) lies. Throws I/O errors, and usage
// "pending/outside" if a symbolic link leads the result or its record out of `directory`.
void MakePendingPlace(const std::string& directory, const std::string& golden);

// True if a file may be one that was left so.
bool IsPendingName(const std::string& path);

// Makes the directory of `path`, and those above it. Throws I/O errors.
void MakeDirectoriesOf(const std::string& path);

// Removes a file, if it is there. Throws I/O errors.
void RemoveIfThere(const std::string& path);

// True if a golden lies outside the current directory, links followed: `accept` doubts that it is
// meant.
bool LiesOutside(const std::string& golden);

// A command line that makes the result and its record the golden.
std::string AcceptCommand(const PendingRecord& pending);

}  // namespace convgrad::cli
