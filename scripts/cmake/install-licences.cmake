# Puts the licences of the libraries in lib/convgrad beside them, as Debian's packages have them.
file(GLOB libraries RELATIVE $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lib/convgrad
  $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lib/convgrad/*.so*)
set(packages "")
foreach(library IN LISTS libraries)
  execute_process(COMMAND dpkg-query --search */${CONVGRAD_ARCHITECTURE}/${library}
    OUTPUT_VARIABLE owner RESULT_VARIABLE failed ERROR_QUIET)
  if(failed)
    message(FATAL_ERROR "no package of this system has ${library}, so its licence is not known")
  endif()
  string(REGEX REPLACE "[:,].*" "" owner "${owner}")
  list(APPEND packages ${owner})
endforeach()
list(REMOVE_DUPLICATES packages)
foreach(package IN LISTS packages)
  file(INSTALL /usr/share/doc/${package}/copyright RENAME ${package}
    DESTINATION ${CMAKE_INSTALL_PREFIX}/share/doc/convgrad/licences)
endforeach()
