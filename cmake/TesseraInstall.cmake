# cmake --install: the program; libtessera.a and libtessera.so of the same objects, with what running a model needs and
# no more; the image codecs likewise as libraries of their own; making and training nets as one more static library;
# public headers; package files for CMake (components static, shared, images, images_shared, train) and pkg-config.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
option(TESSERA_SHARED "Link libtessera.so and libtessera_images.so, beside the static libraries of the same objects" ON)

# Reports, conformance and pictures are parts of the program.
set(library_rooms tessera_base tessera_ir tessera_ops tessera_onnx_proto tessera_io tessera_cost tessera_lease
                  tessera_passes tessera_backend tessera_backend_host tessera_backend_reference tessera_backend_cpu
                  tessera_backend_null tessera_backend_simulated tessera_cuda_kernels tessera_backend_cuda
                  tessera_backends tessera_plan tessera_runtime tessera_protect tessera_capi)
get_property(cpu_rooms GLOBAL PROPERTY TESSERA_CPU_ROOMS)
list(APPEND library_rooms ${cpu_rooms})
set(library_objects "")
foreach(room IN LISTS library_rooms)
  list(APPEND library_objects $<TARGET_OBJECTS:${room}>)
endforeach()

# The one place where the number of the binary interface stands.
file(STRINGS "${PROJECT_SOURCE_DIR}/include/tessera/tessera.h" abi_version REGEX "^#define TESSERA_ABI_VERSION [0-9]+$")
string(REGEX MATCH "[0-9]+$" abi_version "${abi_version}")

# What the objects need from outside; tesseraConfig.cmake.in and the .pc files have the same lists. Found here again,
# because targets found in a room's folder are known there only.
foreach(dependency Protobuf hwy Re2 Xxhash PNG TurboJPEG TIFF GIF WebP OpenJPEG Zip ZLIB LibCsv Utf8proc Pcre2)
  find_package(${dependency} REQUIRED)
endforeach()
set(library_dependencies Threads::Threads fmt::fmt protobuf::libprotobuf-lite hwy::hwy Re2::Re2 Xxhash::Xxhash)
if(TESSERA_PROTECT)
  find_package(Sodium REQUIRED)
  list(APPEND library_dependencies Sodium::Sodium)
endif()
set(images_dependencies fmt::fmt PNG::PNG TurboJPEG::TurboJPEG TIFF::TIFF GIF::GIF WebP::WebP
                        OpenJPEG::OpenJPEG)

# tessera_add_library(TARGET KIND FILE_NAME EXPORT_NAME OBJECTS…): a library of objects that are compiled already.
function(tessera_add_library target kind file export)
  add_library(${target} ${kind} ${ARGN})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${file} EXPORT_NAME ${export} LINKER_LANGUAGE CXX)
  add_library(tessera::${export} ALIAS ${target})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} INTERFACE
                             "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include;${PROJECT_BINARY_DIR}/generated>"
                                                 "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  if(TESSERA_SANITIZE)
    target_link_options(${target} PUBLIC -fsanitize=${TESSERA_SANITIZE})
  endif()
  if(kind STREQUAL "SHARED")
    set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${abi_version} LINK_DEPENDS
                          "${PROJECT_SOURCE_DIR}/src/capi/exports.map")
    # Threads of the pool may still run when a host closes the library: it stays in memory.
    target_link_options(${target} PRIVATE "LINKER:--version-script=${PROJECT_SOURCE_DIR}/src/capi/exports.map"
                        "LINKER:-z,nodelete")
    if(NOT TESSERA_SANITIZE)
      target_link_options(${target} PRIVATE "LINKER:--no-undefined")
    endif()
  endif()
endfunction()

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/tessera")
# tessera_install_library(TARGET COMPONENT): into a file of targets of its own, so that a user needs only what that
# component links.
function(tessera_install_library target component)
  install(TARGETS ${target} EXPORT tessera_${component} ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" LIBRARY
          DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT tessera_${component} NAMESPACE tessera:: FILE tessera_${component}_targets.cmake DESTINATION
          "${package_folder}")
endfunction()

tessera_add_library(tessera_library STATIC tessera tessera ${library_objects})
target_link_libraries(tessera_library PRIVATE ${library_dependencies})
tessera_install_library(tessera_library static)
tessera_add_library(tessera_images STATIC tessera_images images $<TARGET_OBJECTS:tessera_image_codecs>)
target_link_libraries(tessera_images PUBLIC tessera_library PRIVATE ${images_dependencies})
tessera_install_library(tessera_images images)
# It uses what the shared library does not show.
tessera_add_library(tessera_train_library STATIC tessera_train train $<TARGET_OBJECTS:tessera_train>
                    $<TARGET_OBJECTS:tessera_models> $<TARGET_OBJECTS:tessera_npz> $<TARGET_OBJECTS:tessera_toml>)
target_link_libraries(tessera_train_library PUBLIC tessera_library PRIVATE fmt::fmt Zip::Zip ZLIB::ZLIB LibCsv::LibCsv)
tessera_install_library(tessera_train_library train)
tessera_add_library(tessera_text_library STATIC tessera_text text $<TARGET_OBJECTS:tessera_text>)
target_link_libraries(tessera_text_library PUBLIC tessera_library PRIVATE fmt::fmt Utf8proc::Utf8proc Pcre2::Pcre2)
tessera_install_library(tessera_text_library text)
tessera_add_library(tessera_share_library STATIC tessera_share share $<TARGET_OBJECTS:tessera_share>)
target_link_libraries(tessera_share_library PUBLIC tessera_train_library PRIVATE fmt::fmt)
tessera_install_library(tessera_share_library share)
tessera_add_library(tessera_compress_library STATIC tessera_compress compress $<TARGET_OBJECTS:tessera_compress>
                    $<TARGET_OBJECTS:tessera_report>)
target_link_libraries(tessera_compress_library PUBLIC tessera_train_library tessera_text_library tessera_images
                      PRIVATE fmt::fmt)
tessera_install_library(tessera_compress_library compress)

if(TESSERA_SHARED)
  tessera_add_library(tessera_shared SHARED tessera tessera_shared ${library_objects})
  target_link_libraries(tessera_shared PRIVATE ${library_dependencies})
  tessera_install_library(tessera_shared shared)
  # The codecs' messages pass through a function that libtessera.so does not export: they get a hidden copy of it.
  tessera_add_library(tessera_images_shared SHARED tessera_images images_shared $<TARGET_OBJECTS:tessera_image_codecs>
                      "$<FILTER:$<TARGET_OBJECTS:tessera_base>,INCLUDE,/text\\.cpp>")
  target_link_libraries(tessera_images_shared PUBLIC tessera_shared PRIVATE ${images_dependencies})
  set_target_properties(tessera_images_shared PROPERTIES INSTALL_RPATH "$ORIGIN")  # libtessera.so lies beside it
  tessera_install_library(tessera_images_shared images_shared)
endif()

install(TARGETS tessera RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/tessera" "${PROJECT_BINARY_DIR}/generated/tessera"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/tesseraConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/package/tesseraConfig.cmake"
                              INSTALL_DESTINATION "${package_folder}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/tesseraConfigVersion.cmake" COMPATIBILITY
                                 SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/package/tesseraConfig.cmake"
        "${PROJECT_BINARY_DIR}/package/tesseraConfigVersion.cmake"
        "${PROJECT_SOURCE_DIR}/cmake/FindTurboJPEG.cmake" "${PROJECT_SOURCE_DIR}/cmake/FindWebP.cmake"
        "${PROJECT_SOURCE_DIR}/cmake/FindOpenJPEG.cmake" "${PROJECT_SOURCE_DIR}/cmake/FindZip.cmake"
        "${PROJECT_SOURCE_DIR}/cmake/FindLibCsv.cmake"
        "${PROJECT_SOURCE_DIR}/cmake/FindUtf8proc.cmake" "${PROJECT_SOURCE_DIR}/cmake/FindPcre2.cmake"
        "${PROJECT_SOURCE_DIR}/cmake/FindRe2.cmake" "${PROJECT_SOURCE_DIR}/cmake/FindXxhash.cmake"
        "${PROJECT_SOURCE_DIR}/cmake/FindSodium.cmake"
        DESTINATION "${package_folder}")
file(RELATIVE_PATH folder_of_prefix "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
set(sodium_module "")
if(TESSERA_PROTECT)
  set(sodium_module " libsodium")
endif()
foreach(module tessera tessera_images)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/${module}.pc.in" "${PROJECT_BINARY_DIR}/package/${module}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/package/${module}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()
