# Manifests as tests of CTest, in this project and in every one that finds the installed package:
#
#   find_package(convgrad 0.1 REQUIRED)
#   enable_testing()
#   convgrad_add_manifest(goldens goldens/manifest.json)
#
# Adds the test NAME: 'convgrad batch MANIFEST' passes. With SHARDS n they are n tests, NAME.1 to
# NAME.n, which 'ctest -j' runs side by side. MANIFEST is relative to the calling CMakeLists.txt;
# relative outputs of its cases go to the binary directory. ARGS are further flags, e.g.
# ARGS --tag smoke --allow-suspect.
#
#   convgrad_add_manifest(NAME MANIFEST [SHARDS n] [TIMEOUT seconds] [LABELS label...] [ARGS flag...])
function(convgrad_add_manifest name manifest)
  cmake_parse_arguments(PARSE_ARGV 2 ARG "" "SHARDS;TIMEOUT" "LABELS;ARGS")
  if(ARG_UNPARSED_ARGUMENTS OR ARG_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "convgrad_add_manifest(${name}): what is "
      "'${ARG_UNPARSED_ARGUMENTS}${ARG_KEYWORDS_MISSING_VALUES}'?")
  endif()
  if(NOT ARG_SHARDS)
    set(ARG_SHARDS 1)
  endif()
  cmake_path(ABSOLUTE_PATH manifest BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
  foreach(shard RANGE 1 ${ARG_SHARDS})
    set(test ${name})
    set(flags --output-root ${CMAKE_CURRENT_BINARY_DIR} ${ARG_ARGS})
    if(ARG_SHARDS GREATER 1)
      set(test ${name}.${shard})
      list(APPEND flags --shard ${shard}/${ARG_SHARDS})
    endif()
    add_test(NAME ${test} COMMAND convgrad::cli batch ${manifest} ${flags}
      WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
    if(ARG_LABELS)
      set_tests_properties(${test} PROPERTIES LABELS "${ARG_LABELS}")
    endif()
    if(ARG_TIMEOUT)
      set_tests_properties(${test} PROPERTIES TIMEOUT ${ARG_TIMEOUT})
    endif()
  endforeach()
endfunction()
