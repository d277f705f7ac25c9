# What `cmake --install` copies: the tool, the library with its headers, the package that
# find_package(convgrad) reads, job scripts for clusters, and the documentation.
set(CONVGRAD_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/convgrad)

install(TARGETS convgrad_cli EXPORT convgrad_targets RUNTIME)
install(TARGETS convgrad EXPORT convgrad_targets ARCHIVE)
# The headers that users of the library include, and those that these include: each compiles alone,
# without Highway (tests/repository/install_test.cmake).
set(CONVGRAD_HEADERS
  conv/compute.h
  problem/geometry.h
  tensor/npy.h
  tensor/tensor_hash.h
  verify/compare/compare.h
  verify/compare/tolerance.h
  verify/probe/probe.h
  verify/truth/fill.h
  verify/truth/oracle.h)
list(APPEND CONVGRAD_HEADERS
  base/error.h
  base/file.h
  base/float16.h
  base/input_file.h
  base/mapped_file.h
  base/output_file.h
  base/parallel.h
  base/temporary_file.h
  conv/plan/algorithm.h
  conv/plan/plan.h
  conv/plan/work.h
  kernels/depthwise/depthwise.h
  kernels/depthwise/plane.h
  kernels/gemm/compensated.h
  kernels/gemm/indirect_gemm.h
  kernels/gemm/tap_row.h
  kernels/kernel_table.h
  kernels/limits/machine_limits.h
  kernels/pack/pack.h
  kernels/pack/pack_pairs.h
  kernels/whole_vectors/vector_gemm.h
  kernels/whole_vectors/vector_outer.h
  problem/filter_format.h
  problem/op.h
  problem/precision.h
  tensor/dtype.h
  tensor/statistics.h
  tensor/tensor.h
  verify/compare/tally.h
  verify/diagnosis/diagnosis.h
  verify/truth/bound.h
  verify/truth/distance.h
  verify/where/heat_map.h
  verify/where/where.h)
foreach(header IN LISTS CONVGRAD_HEADERS)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${PROJECT_SOURCE_DIR}/src/${header}
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/convgrad/${folder})
endforeach()
install(PROGRAMS ${PROJECT_SOURCE_DIR}/scripts/shards-slurm
  ${PROJECT_SOURCE_DIR}/scripts/shards-parallel DESTINATION ${CMAKE_INSTALL_DATADIR}/convgrad)
install(FILES ${PROJECT_SOURCE_DIR}/scripts/shards-kubernetes.yaml
  DESTINATION ${CMAKE_INSTALL_DATADIR}/convgrad)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md
  ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR})

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
