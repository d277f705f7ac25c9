// Part of the stand-in in task_arena.h.
#pragma once

inline const char* TBB_runtime_version() {
  return "none, but a stand-in";
}
