# Run by the test install.consumer. In: build, config, generator, version, shared (whether there are shared libraries),
# docs, sanitize.
set(folder "${build}/install_test")
file(REMOVE_RECURSE "${folder}")

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nended with ${status}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(expect_output expected)
  run(${ARGN})
  if(NOT output STREQUAL expected)
    message(FATAL_ERROR "${ARGN} printed\n${output}instead of\n${expected}")
  endif()
endfunction()

# The examples of the page, as they stand there.
file(READ "${docs}/library.md" page)
foreach(language cpp c)
  string(REGEX MATCH "```${language}\n[^`]*" example "${page}")
  string(REGEX REPLACE "^```${language}\n" "" example "${example}")
  file(WRITE "${folder}/examples/example.${language}" "${example}")
endforeach()
file(READ "${docs}/training.md" page)
string(REGEX MATCH "```cpp\n[^`]*" example "${page}")
string(REGEX REPLACE "^```cpp\n" "" example "${example}")
file(WRITE "${folder}/examples/training.cpp" "${example}")

# Builds the consumer against the installed library and runs it. Packages that this kind must not need are hidden from
# it.
function(consume kind)
  set(hidden "")
  foreach(package IN LISTS ARGN)
    list(APPEND hidden "-DCMAKE_DISABLE_FIND_PACKAGE_${package}=ON")
  endforeach()
  set(binary "${folder}/${kind}")
  run("${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}/consumer" -B "${binary}" -G "${generator}" "-DKIND=${kind}"
      "-DEXAMPLES=${folder}/examples" "-DCMAKE_BUILD_TYPE=${config}"
      "-DCMAKE_PREFIX_PATH=${folder}/prefix" ${hidden})
  run("${CMAKE_COMMAND}" --build "${binary}")
  # Softmax of 1, 2, 3, 4.
  set(numbers "0.0321 0.0871 0.2369 0.6439")
  set(model "${CMAKE_CURRENT_LIST_DIR}/softmax.onnx")
  string(CONCAT expected "tessera ${version}\nx: f32[batch, 4], opset 13\ny [1, 4]: ${numbers}\n"
                "bound [1, 4]: ${numbers}\nfrom bytes [1, 4]: ${numbers}\nhalf 0.5\n"
                "input 'x' is missing; the model's inputs are 'x'\n")
  expect_output("${expected}"
                "${binary}/consumer" "${model}")
  expect_output("${numbers} " "${binary}/example_cpp" "${model}")
  expect_output("${numbers} " "${binary}/example_c" "${model}")
endfunction()

run("${CMAKE_COMMAND}" --install "${build}" --config "${config}" --prefix "${folder}/prefix")
set(pictures PNG TIFF TurboJPEG WebP OpenJPEG Zip nlohmann_json tomlplusplus CLI11)
consume(static ${pictures})
consume(images)
expect_output("pictures\n" "${folder}/images/pictures")
consume(train)
expect_output("learnt\n" "${CMAKE_COMMAND}" -E chdir "${folder}" "${folder}/train/training")
if(shared)
  consume(shared ${pictures} fmt Protobuf hwy Re2 Xxhash Threads)
  consume(images_shared ${pictures} fmt Protobuf hwy Re2 Xxhash Threads)
  expect_output("pictures\n" "${folder}/images_shared/pictures")
  find_program(pkg_config NAMES pkg-config pkgconf)
  file(GLOB_RECURSE module "${folder}/prefix/tessera.pc")
  if(pkg_config AND module AND NOT sanitize)
    cmake_path(GET module PARENT_PATH modules)
    run("${CMAKE_COMMAND}" -E env "PKG_CONFIG_PATH=${modules}" "${pkg_config}" --cflags --libs tessera)
    string(STRIP "${output}" flags)
    separate_arguments(flags UNIX_COMMAND "${flags}")
    run(cc "${folder}/examples/example.c" -o "${folder}/example_pkg_config" ${flags})
    cmake_path(GET modules PARENT_PATH libraries)
    expect_output("0.0321 0.0871 0.2369 0.6439 " "${CMAKE_COMMAND}" -E env "LD_LIBRARY_PATH=${libraries}"
                  "${folder}/example_pkg_config" "${CMAKE_CURRENT_LIST_DIR}/softmax.onnx")
  endif()
endif()
run("${folder}/prefix/bin/tessera" --version)
if(NOT output MATCHES "${version}")
  message(FATAL_ERROR "the installed tessera --version printed\n${output}")
endif()
foreach(file man/man1/tessera.1 bash-completion/completions/tessera zsh/site-functions/_tessera
        fish/vendor_completions.d/tessera.fish)
  if(NOT EXISTS "${folder}/prefix/share/${file}")
    message(FATAL_ERROR "share/${file} is not installed")
  endif()
endforeach()
