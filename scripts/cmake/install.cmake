# `cmake --install` copies these: the tool (component `tool`), job scripts for clusters, the schemas of
# manifests and reports and the documentation (`share`), the library with its headers and the package
# that find_package(convgrad) reads (`dev`).
set(CONVGRAD_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/convgrad)

install(TARGETS convgrad_cli EXPORT convgrad_targets RUNTIME COMPONENT tool)
install(TARGETS convgrad EXPORT convgrad_targets ARCHIVE COMPONENT dev)
# The headers that users of the library include, and those that these include: each compiles alone,
# without Highway (tests/repository/install_test.cmake).
set(CONVGRAD_HEADERS
  conv/compute.h
  files/tensor_file.h
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
  base/range.h
  base/temporary_file.h
  conv/plan/algorithm.h
  conv/plan/plan.h
  conv/plan/work.h
  files/tensor_container.h
  files/tensor_path.h
  kernels/depthwise/depthwise.h
  kernels/depthwise/plane.h
  kernels/gemm/compensated.h
  kernels/gemm/indirect_gemm.h
  kernels/gemm/plane_squares.h
  kernels/gemm/few_rows.h
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
  verify/diagnosis/diagnosis.h
  verify/truth/bound.h
  verify/truth/float_format.h
  verify/where/axis_pattern.h
  verify/where/error_profile.h
  verify/where/heat_map.h
  verify/where/where.h)
foreach(header IN LISTS CONVGRAD_HEADERS)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${PROJECT_SOURCE_DIR}/src/${header}
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/convgrad/${folder} COMPONENT dev)
endforeach()
install(PROGRAMS ${PROJECT_SOURCE_DIR}/scripts/shards-slurm
  ${PROJECT_SOURCE_DIR}/scripts/parts-slurm ${PROJECT_SOURCE_DIR}/scripts/parts-slurm-reduce
  ${PROJECT_SOURCE_DIR}/scripts/shards-parallel
  DESTINATION ${CMAKE_INSTALL_DATADIR}/convgrad COMPONENT share)
install(FILES ${PROJECT_SOURCE_DIR}/scripts/shards-kubernetes.yaml
  ${PROJECT_SOURCE_DIR}/scripts/parts-kubernetes.yaml ${PROJECT_SOURCE_DIR}/scripts/parts-kubernetes-reduce.yaml
  ${PROJECT_SOURCE_DIR}/data/manifest.schema.json ${PROJECT_SOURCE_DIR}/data/report.schema.json
  DESTINATION ${CMAKE_INSTALL_DATADIR}/convgrad COMPONENT share)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md
  ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT share)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT share)

# The tool writes its own manual page and completions, so that they say what the tool does. A cross
# build without an emulator has none.
if(NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR)
  add_custom_command(OUTPUT convgrad.1 convgrad.bash _convgrad convgrad.fish
    COMMAND convgrad_cli help --format man > convgrad.1
    COMMAND convgrad_cli help --format bash > convgrad.bash
    COMMAND convgrad_cli help --format zsh > _convgrad
    COMMAND convgrad_cli help --format fish > convgrad.fish VERBATIM)
  add_custom_target(convgrad_man ALL DEPENDS convgrad.1 convgrad.bash _convgrad convgrad.fish)
  install(FILES ${PROJECT_BINARY_DIR}/convgrad.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
    COMPONENT share)
  install(FILES ${PROJECT_BINARY_DIR}/convgrad.bash RENAME convgrad
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT share)
  install(FILES ${PROJECT_BINARY_DIR}/_convgrad
    DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT share)
  install(FILES ${PROJECT_BINARY_DIR}/convgrad.fish
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT share)
endif()

install(EXPORT convgrad_targets NAMESPACE convgrad:: DESTINATION ${CONVGRAD_PACKAGE_DIR}
  COMPONENT dev)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/convgrad-config.cmake.in
  ${PROJECT_BINARY_DIR}/convgrad-config.cmake INSTALL_DESTINATION ${CONVGRAD_PACKAGE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/convgrad-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/convgrad-config.cmake ${PROJECT_BINARY_DIR}/convgrad-config-version.cmake
  ${CMAKE_CURRENT_LIST_DIR}/convgrad-manifest.cmake ${CMAKE_CURRENT_LIST_DIR}/FindLibZip.cmake
  DESTINATION ${CONVGRAD_PACKAGE_DIR} COMPONENT dev)
