# What `cmake --install` copies: the tool, the library with its headers, the package that
# find_package(convgrad) reads, and job scripts for clusters.
set(CONVGRAD_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/convgrad)

install(TARGETS convgrad_cli EXPORT convgrad_targets RUNTIME)
install(TARGETS convgrad EXPORT convgrad_targets ARCHIVE)
# Headers of kernels that only our own sources compile stay behind, so that users of the library
# never see Highway.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/convgrad
  FILES_MATCHING PATTERN "*.h" PATTERN "*-inl.h" EXCLUDE PATTERN "dispatch.h" EXCLUDE)
install(PROGRAMS ${PROJECT_SOURCE_DIR}/scripts/shards-slurm
  ${PROJECT_SOURCE_DIR}/scripts/shards-parallel DESTINATION ${CMAKE_INSTALL_DATADIR}/convgrad)
install(FILES ${PROJECT_SOURCE_DIR}/scripts/shards-kubernetes.yaml
  DESTINATION ${CMAKE_INSTALL_DATADIR}/convgrad)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The tool writes its own manual page, so that it says what the tool does. A cross build without an
# emulator has none.
if(NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR)
  add_custom_command(OUTPUT convgrad.1 COMMAND convgrad_cli help --man > convgrad.1 VERBATIM)
  add_custom_target(convgrad_man ALL DEPENDS convgrad.1)
  install(FILES ${PROJECT_BINARY_DIR}/convgrad.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

install(EXPORT convgrad_targets NAMESPACE convgrad:: DESTINATION ${CONVGRAD_PACKAGE_DIR})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/convgrad-config.cmake.in
  ${PROJECT_BINARY_DIR}/convgrad-config.cmake INSTALL_DESTINATION ${CONVGRAD_PACKAGE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/convgrad-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/convgrad-config.cmake ${PROJECT_BINARY_DIR}/convgrad-config-version.cmake
  ${CMAKE_CURRENT_LIST_DIR}/convgrad-manifest.cmake
  DESTINATION ${CONVGRAD_PACKAGE_DIR})
