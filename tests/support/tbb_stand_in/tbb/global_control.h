// Part of the stand-in in task_arena.h: threads are not limited.
#pragma once

#include <cstddef>

namespace tbb {

struct global_control {
  enum parameter { max_allowed_parallelism };
  global_control(parameter, size_t) {}
};

}  // namespace tbb
