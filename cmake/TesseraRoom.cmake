# tessera_room(NAME [UNITY] [DEPENDS targets…])
# One folder of src/ is one object library. Sources are globbed: a folder is one room, and adding a file to it needs no list.
# Object libraries let the installed libtessera be a single archive without re-listing anything.
# UNITY: no two files give their helpers the same name, so that TESSERA_UNITY may compile several as one.
add_library(tessera_options INTERFACE)
target_include_directories(tessera_options INTERFACE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include"
                                                     "${PROJECT_BINARY_DIR}/generated")
target_compile_options(tessera_options INTERFACE -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -fno-math-errno -ffp-contract=off)
if(TESSERA_PCH AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # In a precompiled header, clang forgets the pragmas by which libstdc++ may use what it deprecates itself.
  target_compile_options(tessera_options INTERFACE -Wno-deprecated-declarations)
endif()
if(TESSERA_SANITIZE)
  target_compile_options(tessera_options INTERFACE -fsanitize=${TESSERA_SANITIZE} -fno-omit-frame-pointer
                                                   -fno-sanitize-recover=all)
  target_link_options(tessera_options INTERFACE -fsanitize=${TESSERA_SANITIZE})
endif()
if(TESSERA_FUZZ)
  # Checks that take long to compile, of accesses that the address sanitizer mostly catches as well; the sanitizer builds have them all.
  target_compile_options(tessera_options INTERFACE -fno-sanitize=null,object-size,pointer-overflow,vptr,function)
endif()

configure_file("${PROJECT_SOURCE_DIR}/cmake/version.h.in" "${PROJECT_BINARY_DIR}/generated/tessera/version.h" @ONLY)

set_property(GLOBAL PROPERTY TESSERA_ROOMS "")

# tessera_unity(TARGET): with TESSERA_UNITY its files are compiled eight at a time, and the templates that they share once for all of them.
function(tessera_unity target)
  if(TESSERA_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
endfunction()

function(tessera_room name)
  cmake_parse_arguments(ROOM "UNITY" "" "DEPENDS;SOURCES" ${ARGN})
  if(ROOM_SOURCES)
    set(sources ${ROOM_SOURCES})
  else()
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  endif()
  add_library(tessera_${name} OBJECT ${sources})
  target_link_libraries(tessera_${name} PUBLIC tessera_options Threads::Threads fmt::fmt ${ROOM_DEPENDS})
  if(TESSERA_PCH)
    target_precompile_headers(tessera_${name} PRIVATE "${PROJECT_SOURCE_DIR}/cmake/pch.h")
  endif()
  if(ROOM_UNITY)
    tessera_unity(tessera_${name})
  endif()
  set_property(GLOBAL APPEND PROPERTY TESSERA_ROOMS tessera_${name})
endfunction()
