# cmake --install: the program, libtessera as one static archive of all rooms, the public headers, and the package files
# that make find_package(tessera) give tessera::tessera.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(rooms GLOBAL PROPERTY TESSERA_ROOMS)
set(room_objects "")
foreach(room IN LISTS rooms)
  list(APPEND room_objects $<TARGET_OBJECTS:${room}>)
endforeach()
add_library(tessera_library STATIC ${room_objects})
set_target_properties(tessera_library PROPERTIES OUTPUT_NAME tessera EXPORT_NAME tessera LINKER_LANGUAGE CXX)
add_library(tessera::tessera ALIAS tessera_library)
target_compile_features(tessera_library PUBLIC cxx_std_20)
target_include_directories(tessera_library INTERFACE
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include;${PROJECT_BINARY_DIR}/generated>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
# What the rooms link from outside; tesseraConfig.cmake.in finds the same list. Found again here, because targets found in a
# room's folder are known there only.
foreach(dependency Protobuf hwy Zip PNG TurboJPEG TIFF WebP OpenJPEG Re2 Xxhash)
  find_package(${dependency} REQUIRED)
endforeach()
target_link_libraries(tessera_library PRIVATE
  Threads::Threads fmt::fmt protobuf::libprotobuf-lite hwy::hwy Zip::Zip PNG::PNG TurboJPEG::TurboJPEG
  TIFF::TIFF WebP::WebP OpenJPEG::OpenJPEG Re2::Re2 Xxhash::Xxhash)
if(TESSERA_SANITIZE)
  target_link_options(tessera_library INTERFACE -fsanitize=${TESSERA_SANITIZE})
endif()

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/tessera")
install(TARGETS tessera RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(TARGETS tessera_library EXPORT tessera ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT tessera NAMESPACE tessera:: FILE tesseraTargets.cmake DESTINATION "${package_folder}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/tessera" "${PROJECT_BINARY_DIR}/generated/tessera"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/tesseraConfig.cmake.in" "${PROJECT_BINARY_DIR}/package/tesseraConfig.cmake"
                              INSTALL_DESTINATION "${package_folder}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/tesseraConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/package/tesseraConfig.cmake" "${PROJECT_BINARY_DIR}/package/tesseraConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/FindZip.cmake" "${PROJECT_SOURCE_DIR}/cmake/FindTurboJPEG.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/FindWebP.cmake" "${PROJECT_SOURCE_DIR}/cmake/FindOpenJPEG.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/FindRe2.cmake" "${PROJECT_SOURCE_DIR}/cmake/FindXxhash.cmake"
        DESTINATION "${package_folder}")
