# CPack makes these (scripts/make-packages): two Debian packages, `convgrad` and `libconvgrad-dev`, and a
# tarball that runs wherever it is unpacked, with the libraries that a bare system lacks.
set(CPACK_PACKAGE_VENDOR convgrad)
set(CPACK_PACKAGE_CONTACT "The authors of convgrad <convgrad@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_THREADS 0)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/cpack-components.cmake)
set(CPACK_GENERATOR DEB TGZ)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME convgrad)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION science)
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libconvgrad-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
# The library is static: whoever links it links what it is built on.
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
  "convgrad (= ${PROJECT_VERSION}), libfmt-dev, libhwy-dev, libssl-dev, libtbb-dev, libzip-dev")
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_CONVGRAD_PROCESSOR ${CMAKE_SYSTEM_PROCESSOR})

# Where Debian looks for what others look for elsewhere.
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE RENAME copyright
  DESTINATION share/doc/convgrad COMPONENT debian EXCLUDE_FROM_ALL)
install(FILES ${PROJECT_BINARY_DIR}/_convgrad
  DESTINATION share/zsh/vendor-completions COMPONENT debian EXCLUDE_FROM_ALL)

# The same tool, which finds its libraries by where it lies itself. An RPATH, not a RUNPATH, so that
# those find each other too.
add_executable(convgrad_portable EXCLUDE_FROM_ALL cli/main.cc)
set_target_properties(convgrad_portable PROPERTIES OUTPUT_NAME convgrad
  RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/portable INSTALL_RPATH "$ORIGIN/../lib/convgrad")
target_link_options(convgrad_portable PRIVATE LINKER:--disable-new-dtags)
target_link_libraries(convgrad_portable PRIVATE convgrad_cli_core convgrad_settings)
install(TARGETS convgrad_portable RUNTIME_DEPENDENCY_SET convgrad_libraries
  RUNTIME COMPONENT portable EXCLUDE_FROM_ALL OPTIONAL)
# All but the C library, which is the system's.
install(RUNTIME_DEPENDENCY_SET convgrad_libraries
  PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|dl|m|pthread|rt)\\.so"
  LIBRARY DESTINATION lib/convgrad COMPONENT portable EXCLUDE_FROM_ALL)
install(CODE "set(ARCHITECTURE ${CMAKE_LIBRARY_ARCHITECTURE})
    set(LIBRARIES \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/lib/convgrad)
    set(LICENCES \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/doc/convgrad/licences)"
  COMPONENT portable EXCLUDE_FROM_ALL)
install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/install-licences.cmake COMPONENT portable EXCLUDE_FROM_ALL)

include(CPack)
cpack_add_component_group(runtime DISPLAY_NAME convgrad
  DESCRIPTION "Computes the gradients of 2-D convolutions exactly as TensorFlow defines them, from files of tensors, and says whether yours are right, and why not.")
cpack_add_component_group(dev DISPLAY_NAME libconvgrad-dev
  DESCRIPTION "The static library of convgrad, its headers and its CMake package.")
cpack_add_component(tool GROUP runtime)
cpack_add_component(share GROUP runtime)
cpack_add_component(debian GROUP runtime)
cpack_add_component(dev GROUP dev)
cpack_add_component(portable DISABLED)
