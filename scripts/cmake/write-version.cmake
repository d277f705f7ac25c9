# Run at every build, so that the commit is never stale; the file changes only when its text does.
# Takes SOURCE_DIR, OUTPUT, VERSION, BUILD_TYPE, COMPILER.
set(COMMIT "unknown")
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE_DIR}/.git)
  execute_process(COMMAND ${GIT} describe --always --dirty --abbrev=12 --exclude=*
    WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE DESCRIBED RESULT_VARIABLE FAILED
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT FAILED)
    set(COMMIT "${DESCRIBED}")
  endif()
endif()
configure_file(${SOURCE_DIR}/cli/record/version.cc.in ${OUTPUT} @ONLY)
