# Finds libopenjp2: target OpenJPEG::OpenJPEG. Its own package file cannot be used: Debian's names programs of other
# packages. 2.5 brought strict decoding.
find_path(OpenJPEG_INCLUDE_DIR openjpeg.h PATH_SUFFIXES openjpeg-2.5 openjpeg-2.6)
find_library(OpenJPEG_LIBRARY openjp2)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenJPEG REQUIRED_VARS OpenJPEG_LIBRARY OpenJPEG_INCLUDE_DIR)
if(OpenJPEG_FOUND AND NOT TARGET OpenJPEG::OpenJPEG)
  add_library(OpenJPEG::OpenJPEG UNKNOWN IMPORTED)
  set_target_properties(OpenJPEG::OpenJPEG PROPERTIES IMPORTED_LOCATION "${OpenJPEG_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${OpenJPEG_INCLUDE_DIR}")
endif()
mark_as_advanced(OpenJPEG_INCLUDE_DIR OpenJPEG_LIBRARY)
