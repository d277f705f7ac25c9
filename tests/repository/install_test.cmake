# Installs a build into an empty prefix, and from there: runs the tool, then configures, builds, runs
# and tests tests/consumer, which knows the prefix alone.
#
# usage: cmake -D BUILD=... -D CONSUMER=... -D SCRATCH=... -D COMPILER=... -D FLAGS=... -P install_test.cmake
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${SCRATCH}/prefix)
run(${SCRATCH}/prefix/bin/convgrad --version)
run(${CMAKE_COMMAND} -S ${CONSUMER} -B ${SCRATCH}/consumer -G Ninja
    -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_FLAGS=${FLAGS})
run(${CMAKE_COMMAND} --build ${SCRATCH}/consumer)
run(${SCRATCH}/consumer/consumer)
run(${CMAKE_CTEST_COMMAND} --test-dir ${SCRATCH}/consumer --output-on-failure --no-tests=error)
if(NOT EXISTS ${SCRATCH}/consumer/sum.npy)
  message(FATAL_ERROR "no output of the manifest in the binary directory")
endif()
file(REMOVE_RECURSE ${SCRATCH})
