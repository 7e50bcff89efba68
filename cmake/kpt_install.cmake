# The install tree: bin/kpt, libexec/kpt, lib, lib/kpt, include/kpt, lib/cmake/KernelPyTorch, share/doc/kpt.
# The layout is fixed (no multiarch folders) because programs find their parts by it; see src/base/build_paths.h.
include(CMakePackageConfigHelpers)

install(TARGETS kpt RUNTIME DESTINATION bin)
install(TARGETS kpt-probe kpt-pjrt-compile RUNTIME DESTINATION libexec/kpt)
install(TARGETS kernelpytorch EXPORT KernelPyTorchTargets LIBRARY DESTINATION lib)
install(DIRECTORY include/kpt DESTINATION include FILES_MATCHING PATTERN "*.h")
install(FILES README.md CHANGELOG.md LICENSE SECURITY.md DESTINATION share/doc/kpt)
install(DIRECTORY docs/ DESTINATION share/doc/kpt/docs)

install(EXPORT KernelPyTorchTargets NAMESPACE KernelPyTorch:: DESTINATION lib/cmake/KernelPyTorch)
configure_package_config_file(cmake/KernelPyTorchConfig.cmake.in "${CMAKE_BINARY_DIR}/KernelPyTorchConfig.cmake"
  INSTALL_DESTINATION lib/cmake/KernelPyTorch NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/KernelPyTorchConfigVersion.cmake"
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/KernelPyTorchConfig.cmake" "${CMAKE_BINARY_DIR}/KernelPyTorchConfigVersion.cmake"
  DESTINATION lib/cmake/KernelPyTorch)
