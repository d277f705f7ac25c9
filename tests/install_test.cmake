# Installs a build into an empty prefix, and from there: runs the tool, then configures, builds and
# runs tests/consumer, which knows the prefix alone.
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
file(REMOVE_RECURSE ${SCRATCH})
