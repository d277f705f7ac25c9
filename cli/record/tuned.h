// What `tune` measured, from one run to the next: a small file for each processor, set of its CPUs
// that may be used, instruction set and number of threads. A file that is damaged or of another
// program or machine is ignored, never an error: choices change no bit.
#pragma once

#include <map>
#include <string>

#include "conv/compute.h"

namespace convgrad::cli {

struct TunedFile {
  std::string path;     // empty where there is no place for one
  std::string ignored;  // why a file that is there is not used; empty: used, or not there
  std::string date;     // of the last measurement; empty where no file is used
  std::map<std::string, std::string> choices;  // TunedKey -> algorithm

  bool is_used() const { return !date.empty(); }
};

// By what a problem's choice is found: where pads came from makes no difference.
std::string TunedKey(const Problem& problem);

TunedFile ReadTuned(Isa isa, int num_threads);

// Puts the choices into the file, whole or not at all. Throws I/O errors.
void WriteTuned(const TunedFile& file, Isa isa, int num_threads);

// Says whether there was one. Throws I/O errors.
bool ForgetTuned(Isa isa, int num_threads);

// The choices of this machine. Each file is read once, when it is first asked for.
TunedChoice KeptChoices();

}  // namespace convgrad::cli
