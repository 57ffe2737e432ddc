#!/usr/bin/env bash
# Runs tests under sanitizers: scripts/sanitize.sh [thread|address] [--kernels] [SUITE …]
# thread (default): the thread sanitizer; address: the address and undefined-behaviour sanitizers. SUITE: one or more of
# base, plan, runtime, simulated, share, serve (test programs), decoders (thousands of edits of requests to the server),
# share_programs and server (the programs, by tests in Python), emulation (CUDA kernels on the CPU), driver (the
# simulated CUDA driver), io, text, models and generate (readers of files and language models; test programs). Without
# any: all of the first seven. Builds the preset tsan or asan with what they need;
# --kernels: with the CPU's kernels under the sanitizer too, which doubles the build.
# What is reported stays in build/PRESET/reports/SUITE*. Exit code 1 when anything is reported or fails.
set -euo pipefail
cd "$(dirname "$0")/.."

all_suites=(base plan runtime simulated share serve decoders share_programs server emulation driver
            io text models generate)
kind=thread
kernels=OFF
suites=()
while [ $# -gt 0 ]; do
  case $1 in
    thread | address) kind=$1 ;;
    --kernels) kernels=ON ;;
    -h | --help) sed -n '2,10s/^# //p' "$0"; exit 0 ;;
    *) [[ " ${all_suites[*]} " == *" $1 "* ]] ||
         { echo "sanitize: unknown argument '$1'; suites are ${all_suites[*]} (see --help)" >&2; exit 2; }
       suites+=("$1") ;;
  esac
  shift
done
[ ${#suites[@]} -gt 0 ] || suites=("${all_suites[@]:0:7}")

preset=tsan
[ "$kind" = thread ] || preset=asan
targets=()
for suite in "${suites[@]}"; do
  case $suite in
    simulated) targets+=(test_backends_simulated) ;;
    emulation) targets+=(test_cuda_emulation) ;;
    driver) targets+=(test_cuda_driver) ;;
    decoders) targets+=(fuzz_replay) ;;
    share_programs) targets+=(tessera) ;;
    server) targets+=(tessera tessera_serve bench_serve_load) ;;
    *) targets+=("test_$suite") ;;
  esac
done
TESSERA_CMAKE_OPTIONS="-DTESSERA_UNITY=ON -DTESSERA_SANITIZE_KERNELS=$kernels ${TESSERA_CMAKE_OPTIONS:-}" \
  scripts/build.sh $preset "${targets[@]}"

build=$PWD/build/$preset
reports=$build/reports
mkdir -p "$reports"
# Seconds that a suite may take, above which it hangs.
limit_of() {
  case $1 in
    runtime | server | share_programs) echo 7200 ;;
    *) echo 1800 ;;
  esac
}

# Reports go to files of their own, one a process, since tests start programs whose output they read themselves. Tests
# in Python multiply what they wait for programs by TESSERA_PATIENCE; those in C++ know that they are slow.
run() {
  local suite=$1 suppressions=$PWD/tests/support/thread_sanitizer.txt
  shift
  local options="suppressions=$suppressions:second_deadlock_stack=1:halt_on_error=0:handle_segv=0"
  TSAN_OPTIONS="log_path=$reports/$suite.report:$options:allocator_may_return_null=1:die_after_fork=0" \
    ASAN_OPTIONS="log_path=$reports/$suite.report:allocator_may_return_null=1:detect_leaks=1" \
    UBSAN_OPTIONS="log_path=$reports/$suite.report:print_stacktrace=1" \
    TESSERA_PATIENCE=10 timeout "$(limit_of "$suite")" "$@" >"$reports/$suite.log" 2>&1
}

# Tests that plant mistakes expect the sanitizer's report on the standard error output of a process of their own, and
# the threads of a kernel that a fault stops are left as they are, with what they hold.
run_emulation() {
  local suite=$1
  shift
  # A kernel's access out of bounds is left by a jump out of the signal's handler, which may hold any lock.
  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=report_signal_unsafe=0 \
    timeout "$(limit_of "$suite")" "$@" >"$reports/$suite.log" 2>&1
}

run_suite() {
  case $1 in
    simulated) run "$1" "$build/tests/test_backends_simulated" --gtest_brief=1 ;;
    serve) run "$1" "$build/tests/serve/test_serve" --gtest_brief=1 ;;
    emulation) run_emulation "$1" "$build/tests/cuda/test_cuda_emulation" --gtest_brief=1 ;;
    # The sanitizer's dlopen does not look along the run path of the program that calls it.
    driver) LD_LIBRARY_PATH=$build/tests/cuda/driver run_emulation "$1" "$build/tests/cuda/driver/test_cuda_driver" \
              --gtest_brief=1 ;;
    decoders) run "$1" ctest --test-dir "$build" --output-on-failure -R '^fuzz\.(replay|mutations)\.serve_' ;;
    share_programs) run "$1" ctest --test-dir "$build" --output-on-failure -R '^apps\.share_(processes|faults)$' ;;
    server) run "$1" ctest --test-dir "$build" --output-on-failure -R '^serve\.' ;;
    *) run "$1" "$build/tests/test_$1" --gtest_brief=1 ;;
  esac
}

failed=0
printf '%-16s %8s  %s\n' suite reports result
for suite in "${suites[@]}"; do
  rm -f "$reports/$suite".*
  status=0
  run_suite "$suite" || status=$?
  # Each report ends with a summary, but for undefined behaviour, of which the line of the error counts.
  found=$(cat "$reports/$suite".* | awk '/^SUMMARY: UndefinedBehavior/ { next }
                                         /^SUMMARY: |runtime error: / { n++ } END { print n + 0 }')
  result=passed
  if [ $status != 0 ] || [ "$found" != 0 ]; then
    failed=1
    result="status $status, see $reports/$suite.*"
  fi
  printf '%-16s %8s  %s\n' "$suite" "$found" "$result"
done
exit $failed
