# tessera_room(NAME [UNITY] [LIGHT] [OWN_FLAGS] [APART] [DEPENDS targets…])
# One folder of src/ is one object library. Sources are globbed: a folder is one room, and adding a file to it needs no
# list. Object libraries let the installed libtessera be a single archive without re-listing anything.
# UNITY: no two files give their helpers the same name, so that TESSERA_UNITY may compile several as one.
# LIGHT: nothing in the room runs once an element or once a run, so that a quick build counts for more than its speed.
# APART: the room is no part of the program `tessera`, of the libraries and of other rooms' tests.
# OWN_FLAGS: the room is compiled with flags of its own and therefore needs a precompiled header of its own.
add_library(tessera_options INTERFACE)
target_include_directories(tessera_options INTERFACE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include"
                                                     "${PROJECT_BINARY_DIR}/generated")
target_compile_options(tessera_options INTERFACE -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers
                       -fno-math-errno -ffp-contract=off)
if(TESSERA_WERROR)
  target_compile_options(tessera_options INTERFACE -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 reports these for std::string, std::vector and std::optional that it has inlined, where nothing is wrong.
    target_compile_options(tessera_options INTERFACE -Wno-error=array-bounds -Wno-error=stringop-overflow
                           -Wno-error=maybe-uninitialized -Wno-error=restrict)
  endif()
endif()
if(TESSERA_PCH AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # In a precompiled header, clang forgets the pragmas by which libstdc++ may use what it deprecates itself.
  target_compile_options(tessera_options INTERFACE -Wno-deprecated-declarations)
endif()
if(TESSERA_SANITIZE)
  # Not where a target says so: see TESSERA_SANITIZE_KERNELS.
  set(flags -fsanitize=${TESSERA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_compile_options(tessera_options INTERFACE
                         "$<$<NOT:$<BOOL:$<TARGET_PROPERTY:TESSERA_UNSANITIZED>>>:${flags}>")
  target_link_options(tessera_options INTERFACE -fsanitize=${TESSERA_SANITIZE})
endif()
if(TESSERA_FUZZ)
  # Checks that take long to compile, of accesses that the address sanitizer mostly catches as well; the sanitizer
  # builds have them all.
  target_compile_options(tessera_options INTERFACE -fno-sanitize=null,object-size,pointer-overflow,vptr,function)
endif()

configure_file("${PROJECT_SOURCE_DIR}/cmake/version.h.in" "${PROJECT_BINARY_DIR}/generated/tessera/version.h" @ONLY)

set_property(GLOBAL PROPERTY TESSERA_ROOMS "")

# The precompiled header of all rooms that are compiled alike.
set(TESSERA_PCH_HEADER "${PROJECT_SOURCE_DIR}/cmake/pch.h")
if(TESSERA_UNITY)
  set(TESSERA_PCH_HEADER "${PROJECT_SOURCE_DIR}/cmake/pch_rooms.h")
endif()
# tessera_pch_target(NAME [options…]): a target that exists for its precompiled header, which those compiled with the
# same options share.
function(tessera_pch_target name)
  add_library(${name} OBJECT "${PROJECT_SOURCE_DIR}/cmake/pch.cpp")
  target_link_libraries(${name} PRIVATE tessera_options Threads::Threads fmt::fmt)
  target_compile_options(${name} PRIVATE ${ARGN})
  target_precompile_headers(${name} PRIVATE "${TESSERA_PCH_HEADER}")
endfunction()
# What runs once a model or less is compiled in three quarters of the time without the costlier optimisations.
set(TESSERA_LIGHT_OPTIONS $<$<CONFIG:Release>:-O1>)
if(TESSERA_PCH)
  tessera_pch_target(tessera_pch)
  tessera_pch_target(tessera_pch_light ${TESSERA_LIGHT_OPTIONS})
endif()

# tessera_unity(TARGET): with TESSERA_UNITY its files are compiled twenty at a time, and the templates that they share
# once for all of them.
function(tessera_unity target)
  if(TESSERA_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 20)
  endif()
endfunction()

function(tessera_room name)
  cmake_parse_arguments(ROOM "UNITY;LIGHT;OWN_FLAGS;APART" "" "DEPENDS;SOURCES" ${ARGN})
  if(ROOM_SOURCES)
    set(sources ${ROOM_SOURCES})
  else()
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  endif()
  add_library(tessera_${name} OBJECT ${sources})
  target_link_libraries(tessera_${name} PUBLIC tessera_options Threads::Threads fmt::fmt ${ROOM_DEPENDS})
  set(pch_of tessera_pch)
  if(ROOM_LIGHT)
    target_compile_options(tessera_${name} PRIVATE ${TESSERA_LIGHT_OPTIONS})
    set(pch_of tessera_pch_light)
  endif()
  if(TESSERA_PCH AND ROOM_OWN_FLAGS)
    target_precompile_headers(tessera_${name} PRIVATE "${TESSERA_PCH_HEADER}")
  elseif(TESSERA_PCH)
    target_precompile_headers(tessera_${name} REUSE_FROM ${pch_of})
  endif()
  if(ROOM_UNITY)
    tessera_unity(tessera_${name})
  endif()
  if(NOT ROOM_APART)
    set_property(GLOBAL APPEND PROPERTY TESSERA_ROOMS tessera_${name})
  endif()
endfunction()
