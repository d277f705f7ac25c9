# Puts the licences of what a package has of others into the folder LICENCES, as Debian's packages have
# them: of the shared libraries in the folder LIBRARIES, whose names may have a hash by auditwheel, and
# of the headers that are compiled into the program. ARCHITECTURE: as in /usr/lib/ARCHITECTURE.
file(GLOB libraries RELATIVE ${LIBRARIES} ${LIBRARIES}/*.so*)
set(packages libcli11-dev libhwy-dev nlohmann-json3-dev)
foreach(library IN LISTS libraries)
  string(REGEX REPLACE "-[0-9a-f]+(\\.so.*)$" "\\1" name "${library}")
  execute_process(COMMAND dpkg-query --search */${ARCHITECTURE}/${name}
    OUTPUT_VARIABLE owner RESULT_VARIABLE failed ERROR_QUIET)
  if(failed)
    message(FATAL_ERROR "no package of this system has ${name}, so its licence is not known")
  endif()
  string(REGEX REPLACE "[:,].*" "" owner "${owner}")
  list(APPEND packages ${owner})
endforeach()
list(REMOVE_DUPLICATES packages)
file(MAKE_DIRECTORY ${LICENCES})
foreach(package IN LISTS packages)
  file(COPY_FILE /usr/share/doc/${package}/copyright ${LICENCES}/${package})
endforeach()
