# Installs a build into an empty prefix, and from there: runs the tool, then configures, builds, runs
# and tests tests/consumer, which knows the prefix alone; compiles each header by itself; looks for the
# documentation.
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

# Each header is the first one that a file includes, several compilers side by side. Who asks for
# Highway finds an error.
file(WRITE ${SCRATCH}/without/hwy/highway.h "#error an installed header includes Highway\n")
file(GLOB_RECURSE headers ${SCRATCH}/prefix/include/convgrad/*.h)
if(NOT headers)
  message(FATAL_ERROR "no headers are installed")
endif()
list(JOIN headers "\n" lines)
file(WRITE ${SCRATCH}/headers "${lines}\n")
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
run(xargs -a ${SCRATCH}/headers -P ${cores} -I {} ${COMPILER} -std=c++20 -Wall -Wextra -Werror
    -fsyntax-only -I ${SCRATCH}/without -I ${SCRATCH}/prefix/include/convgrad -include {}
    -x c++ /dev/null)

file(GLOB_RECURSE pages ${SCRATCH}/prefix/share/doc/*/docs/*.md)
file(GLOB_RECURSE source_pages ${CMAKE_CURRENT_LIST_DIR}/../../docs/*.md)
list(LENGTH pages installed)
list(LENGTH source_pages written)
if(installed EQUAL 0 OR NOT installed EQUAL written)
  message(FATAL_ERROR "${installed} of ${written} pages are installed")
endif()
foreach(file bash-completion/completions/convgrad zsh/site-functions/_convgrad
    fish/vendor_completions.d/convgrad.fish)
  if(NOT EXISTS ${SCRATCH}/prefix/share/${file})
    message(FATAL_ERROR "no ${file} is installed")
  endif()
endforeach()
if(NOT EXISTS ${SCRATCH}/consumer/sum.npy)
  message(FATAL_ERROR "no output of the manifest in the binary directory")
endif()
file(REMOVE_RECURSE ${SCRATCH})
