# Run by the test install.consumer. In: build, config, generator, version.
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

run("${CMAKE_COMMAND}" --install "${build}" --config "${config}" --prefix "${folder}/prefix")
run("${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}/consumer" -B "${folder}/consumer" -G "${generator}"
    "-DCMAKE_BUILD_TYPE=${config}" "-DCMAKE_PREFIX_PATH=${folder}/prefix")
run("${CMAKE_COMMAND}" --build "${folder}/consumer")
run("${folder}/consumer/consumer" "${CMAKE_CURRENT_LIST_DIR}/softmax.onnx")
# Softmax of 1, 2, 3, 4.
set(expected "tessera ${version}\ny [1, 4]: 0.0321 0.0871 0.2369 0.6439\n")
if(NOT output STREQUAL expected)
  message(FATAL_ERROR "the consumer printed\n${output}instead of\n${expected}")
endif()
run("${folder}/prefix/bin/tessera" --version)
if(NOT output MATCHES "${version}")
  message(FATAL_ERROR "the installed tessera --version printed\n${output}")
endif()
