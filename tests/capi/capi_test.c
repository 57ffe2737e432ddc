/* The C interface from C99: capi_test SOFTMAX.onnx. The model is y = softmax(x) over f32[batch, 4]. Exits 1 at the
 * first check that fails. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/tessera.h"

#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                      \
    }                                                                               \
  } while (0)

static const int64_t kShape[2] = {1, 4};
static const char* const kInput[1] = {"x"};
static const char* const kOutput[1] = {"y"};

/* The call failed with the status, and its error says `text`. */
static void expect_failure(tessera_status status, tessera_status expected, tessera_error** error, const char* text) {
  if (status != expected || strstr(tessera_error_message(*error), text) == NULL) {
    fprintf(stderr, "status %d, \"%s\"; expected %d, \"%s\"\n", (int)status, tessera_error_message(*error),
            (int)expected, text);
    exit(1);
  }
  CHECK(tessera_error_status(*error) == expected);
  tessera_error_free(*error);
}

static tessera_value* view(const float* data) {
  tessera_value* value;
  CHECK(tessera_value_view(TESSERA_F32, kShape, 2, data, 4 * sizeof(float), &value, NULL) == TESSERA_OK);
  return value;
}

static int is_softmax(const float* y) {
  return fabs(y[0] - 0.0320586f) < 1e-6 && fabs(y[1] - 0.0871443f) < 1e-6 && fabs(y[2] - 0.2368828f) < 1e-6 &&
         fabs(y[3] - 0.6439143f) < 1e-6;
}

static void test_description(const tessera_model* model) {
  const tessera_value_info* x = tessera_model_input(model, 0);
  CHECK(tessera_model_input_count(model) == 1 && tessera_model_output_count(model) == 1);
  CHECK(strcmp(tessera_value_info_name(x), "x") == 0 && strcmp(tessera_value_info_type(x), "f32[batch, 4]") == 0);
  CHECK(tessera_value_info_dtype(x) == TESSERA_F32 && tessera_value_info_rank(x) == 2);
  CHECK(tessera_value_info_dim(x, 0) == -1 && strcmp(tessera_value_info_dim_name(x, 0), "batch") == 0);
  CHECK(tessera_value_info_dim(x, 1) == 4 && strcmp(tessera_value_info_dim_name(x, 1), "") == 0);
  CHECK(tessera_value_info_dim(x, 2) == -1 && tessera_value_info_dim_name(x, 2) == NULL);
  CHECK(strcmp(tessera_value_info_name(tessera_model_output(model, 0)), "y") == 0);
  CHECK(tessera_model_input(model, 1) == NULL && tessera_model_output(NULL, 0) == NULL);
  CHECK(tessera_model_metadata(model, TESSERA_DOC_STRING) != NULL && tessera_model_metadata(model, 99) == NULL);
  CHECK(tessera_model_opset(model, "ai.onnx") >= 13 && tessera_model_opset(model, "org.example") == 0);
  CHECK(tessera_model_property(model, "none") == NULL &&
        tessera_model_property_key(model, tessera_model_property_count(model)) == NULL);
}

static void test_run(tessera_session* session) {
  const float x[4] = {1, 2, 3, 4};
  float y[4] = {0, 0, 0, 0};
  const tessera_value* inputs[1];
  tessera_value *outputs[1] = {NULL}, *input = view(x), *bound;
  inputs[0] = input;
  CHECK(tessera_session_run(session, kInput, inputs, 1, kOutput, outputs, 1, NULL, NULL) == TESSERA_OK);
  CHECK(tessera_value_kind(outputs[0]) == TESSERA_TENSOR && tessera_value_dtype(outputs[0]) == TESSERA_F32 &&
        tessera_value_rank(outputs[0]) == 2);
  CHECK(tessera_value_shape(outputs[0])[1] == 4 && tessera_value_element_count(outputs[0]) == 4 &&
        tessera_value_bytes(outputs[0]) == 16);
  CHECK(is_softmax((const float*)tessera_value_data(outputs[0])));
  tessera_value_free(outputs[0]);
  /* Into memory of ours, all outputs in the model's order. */
  CHECK(tessera_value_wrap(TESSERA_F32, kShape, 2, y, sizeof y, &bound, NULL) == TESSERA_OK);
  outputs[0] = bound;
  CHECK(tessera_session_run(session, kInput, inputs, 1, NULL, outputs, 1, NULL, NULL) == TESSERA_OK);
  CHECK(outputs[0] == bound && tessera_value_data(bound) == y && is_softmax(y));
  tessera_value_free(bound);
  tessera_value_free(input);
  CHECK(tessera_session_memory_bytes(session) > 0 && tessera_session_trim(session, NULL) == TESSERA_OK);
}

static void test_faults(const char* path, const tessera_model* model, tessera_session* session) {
  const float x[4] = {1, 2, 3, 4};
  const int64_t wrong[2] = {1, 3};
  tessera_error* error = NULL;
  tessera_model* none = (tessera_model*)&error;
  tessera_value *value = NULL, *input = view(x), *outputs[1] = {NULL};
  const tessera_value* inputs[1];
  const char* const unknown[1] = {"z"};
  tessera_session_options* options = tessera_session_options_new();
  tessera_session* other = NULL;
  inputs[0] = input;
  expect_failure(tessera_model_load("/no/such.onnx", &none, &error), TESSERA_NOT_FOUND, &error,
                 "/no/such.onnx' does not exist");
  CHECK(none == NULL);
  CHECK(tessera_model_load("/no/such.onnx", &none, NULL) == TESSERA_NOT_FOUND);
  expect_failure(tessera_model_load(NULL, &none, &error), TESSERA_INVALID_ARGUMENT, &error, "path is NULL");
  expect_failure(tessera_model_load(path, NULL, &error), TESSERA_INVALID_ARGUMENT, &error, "model is NULL");
  expect_failure(tessera_model_load_bytes("nonsense", 8, NULL, NULL, NULL, &none, &error), TESSERA_INVALID_MODEL,
                 &error, "not an ONNX model");
  expect_failure(tessera_session_new(NULL, NULL, &other, &error), TESSERA_INVALID_ARGUMENT, &error,
                 "model is NULL, expected a tessera_model");
  expect_failure(tessera_session_new((const tessera_model*)(const void*)input, NULL, &other, &error),
                 TESSERA_INVALID_ARGUMENT, &error, "model is no tessera_model");
  CHECK(other == NULL);
  expect_failure(tessera_session_run(NULL, kInput, inputs, 1, kOutput, outputs, 1, NULL, &error),
                 TESSERA_INVALID_ARGUMENT, &error, "session is NULL");
  expect_failure(tessera_session_run(session, kInput, NULL, 1, kOutput, outputs, 1, NULL, &error),
                 TESSERA_INVALID_ARGUMENT, &error, "inputs is NULL");
  expect_failure(tessera_session_run(session, unknown, inputs, 1, kOutput, outputs, 1, NULL, &error),
                 TESSERA_INVALID_ARGUMENT, &error, "the model has no input 'z'");
  expect_failure(tessera_session_run(session, kInput, inputs, 1, unknown, outputs, 1, NULL, &error),
                 TESSERA_INVALID_ARGUMENT, &error, "the model has no output 'z'");
  expect_failure(tessera_session_run(session, NULL, NULL, 0, kOutput, outputs, 1, NULL, &error),
                 TESSERA_INVALID_ARGUMENT, &error, "input 'x' is missing");
  expect_failure(tessera_session_run(session, kInput, inputs, 1, NULL, outputs, 2, NULL, &error),
                 TESSERA_INVALID_ARGUMENT, &error, "output_count is 2, but the model has 1");
  outputs[0] = input;
  expect_failure(tessera_session_run(session, kInput, inputs, 1, kOutput, outputs, 1, NULL, &error),
                 TESSERA_INVALID_ARGUMENT, &error, "not of tessera_value_wrap");
  expect_failure(tessera_value_view(TESSERA_F32, kShape, 2, x, 3, &value, &error), TESSERA_INVALID_ARGUMENT, &error,
                 "3 bytes given for f32[1, 4], expected 16");
  expect_failure(tessera_value_view(99, kShape, 2, x, 16, &value, &error), TESSERA_INVALID_ARGUMENT, &error,
                 "dtype is 99");
  expect_failure(tessera_value_view(TESSERA_F32, NULL, 2, x, 16, &value, &error), TESSERA_INVALID_ARGUMENT, &error,
                 "shape is NULL");
  expect_failure(tessera_value_view(TESSERA_F32, kShape, 2, NULL, 16, &value, &error), TESSERA_INVALID_ARGUMENT, &error,
                 "data is NULL");
  CHECK(tessera_value_view(TESSERA_F32, wrong, 2, x, 12, &value, NULL) == TESSERA_OK);
  inputs[0] = value;
  outputs[0] = NULL;
  expect_failure(tessera_session_run(session, kInput, inputs, 1, kOutput, outputs, 1, NULL, &error),
                 TESSERA_INVALID_ARGUMENT, &error, "dimension 1 is 3, expected 4");
  CHECK(outputs[0] == NULL);
  expect_failure(tessera_session_options_set_threads(options, -1, &error), TESSERA_INVALID_ARGUMENT, &error,
                 "threads is -1");
  expect_failure(tessera_session_options_set_precision(options, TESSERA_I8, &error), TESSERA_INVALID_ARGUMENT, &error,
                 "precision is 3");
  CHECK(tessera_session_options_set_device(options, "abacus", NULL) == TESSERA_OK);
  expect_failure(tessera_session_new(model, options, &other, &error), TESSERA_INVALID_ARGUMENT, &error, "abacus");
  CHECK(tessera_error_status(NULL) == TESSERA_OK && strcmp(tessera_error_message(NULL), "") == 0);
  tessera_error_free(NULL);
  tessera_model_free(NULL);
  tessera_value_free(value);
  tessera_value_free(input);
  tessera_session_options_free(options);
}

static void test_values(void) {
  const int64_t two[1] = {2}, numbers[2] = {7, 8};
  const char* const words[2] = {"one", "t\0o"};
  const size_t lengths[2] = {3, 3};
  size_t length = 0;
  tessera_value *strings, *keys, *sequence, *map, *part;
  const tessera_value* parts[2];
  tessera_error* error;
  CHECK(tessera_value_strings(two, 1, words, lengths, 2, &strings, NULL) == TESSERA_OK);
  CHECK(memcmp(tessera_value_string(strings, 1, &length), "t\0o", 4) == 0 && length == 3 &&
        tessera_value_string(strings, 2, NULL) == NULL);
  CHECK(tessera_value_data(strings) == NULL && tessera_value_dtype(strings) == TESSERA_STRING);
  CHECK(tessera_value_copy(TESSERA_I64, two, 1, numbers, sizeof numbers, &keys, NULL) == TESSERA_OK &&
        tessera_value_data(keys) != numbers);
  parts[0] = strings;
  parts[1] = keys;
  CHECK(tessera_value_sequence(parts, 2, &sequence, NULL) == TESSERA_OK &&
        tessera_value_map(keys, parts, 2, &map, NULL) == TESSERA_OK);
  tessera_value_free(strings);
  tessera_value_free(keys);
  CHECK(tessera_value_kind(sequence) == TESSERA_SEQUENCE && tessera_value_length(sequence) == 2 &&
        tessera_value_rank(sequence) == -1);
  CHECK(tessera_value_element(sequence, 1, &part, NULL) == TESSERA_OK);
  tessera_value_free(sequence); /* the part lives on */
  CHECK(((const int64_t*)tessera_value_data(part))[1] == 8);
  tessera_value_free(part);
  CHECK(tessera_value_kind(map) == TESSERA_MAP && tessera_value_keys(map, &part, NULL) == TESSERA_OK &&
        ((const int64_t*)tessera_value_data(part))[0] == 7);
  tessera_value_free(part);
  expect_failure(tessera_value_element(map, 2, &part, &error), TESSERA_INVALID_ARGUMENT, &error,
                 "index is 2, expected less than 2");
  CHECK(part == NULL);
  tessera_value_free(map);
  CHECK(tessera_value_kind(NULL) == TESSERA_NONE && tessera_value_data(NULL) == NULL);
}

static void count_release(void* user) {
  ++*(int*)user;
}

static void test_bytes(const char* path) {
  char bytes[4096];
  FILE* file = fopen(path, "rb");
  size_t size = file != NULL ? fread(bytes, 1, sizeof bytes, file) : 0;
  int released = 0;
  tessera_model* model;
  tessera_session* session;
  CHECK(size > 0 && fclose(file) == 0);
  CHECK(tessera_model_load_bytes(bytes, size, NULL, count_release, &released, &model, NULL) == TESSERA_OK);
  CHECK(tessera_session_new(model, NULL, &session, NULL) == TESSERA_OK);
  tessera_model_free(model);
  test_run(session);
  tessera_session_free(session);
  CHECK(released == 1);
  CHECK(tessera_model_load_bytes("bad", 3, NULL, count_release, &released, &model, NULL) == TESSERA_INVALID_MODEL &&
        released == 2);
}

static void test_limits(const tessera_model* model, tessera_session* session) {
  const float x[4] = {1, 2, 3, 4};
  tessera_run_options* options = tessera_run_options_new();
  tessera_cancellation* cancellation = tessera_cancellation_new();
  tessera_value *input = view(x), *outputs[1] = {NULL};
  const tessera_value* inputs[1];
  const char* const batch[1] = {"batch"};
  const int64_t size[1] = {2};
  tessera_model* fixed;
  tessera_error* error;
  inputs[0] = input;
  CHECK(tessera_run_options_set_cancellation(options, cancellation, NULL) == TESSERA_OK &&
        tessera_run_options_set_seed(options, 7, NULL) == TESSERA_OK &&
        tessera_run_options_set_priority(options, TESSERA_PRIORITY_REALTIME, NULL) == TESSERA_OK);
  expect_failure(tessera_run_options_set_priority(options, 3, &error), TESSERA_INVALID_ARGUMENT, &error,
                 "there is no priority 3");
  CHECK(tessera_session_run(session, kInput, inputs, 1, kOutput, outputs, 1, options, NULL) == TESSERA_OK);
  tessera_value_free(outputs[0]);
  outputs[0] = NULL;
  tessera_cancellation_cancel(cancellation);
  expect_failure(tessera_session_run(session, kInput, inputs, 1, kOutput, outputs, 1, options, &error),
                 TESSERA_CANCELLED, &error, "");
  CHECK(tessera_run_options_set_cancellation(options, NULL, NULL) == TESSERA_OK &&
        tessera_run_options_set_time_limit_ns(options, 1, NULL) == TESSERA_OK);
  expect_failure(tessera_session_run(session, kInput, inputs, 1, kOutput, outputs, 1, options, &error),
                 TESSERA_OVER_BUDGET, &error, "");
  CHECK(tessera_model_with_dims(model, batch, size, 1, &fixed, NULL) == TESSERA_OK);
  CHECK(tessera_value_info_dim(tessera_model_input(fixed, 0), 0) == 2);
  tessera_model_free(fixed);
  tessera_value_free(input);
  tessera_cancellation_free(cancellation);
  tessera_run_options_free(options);
}

static void* run_often(void* session) {
  int i;
  for (i = 0; i < 50; ++i) test_run((tessera_session*)session);
  return NULL;
}

static void test_threads(tessera_session* session) {
  pthread_t threads[4];
  int i;
  for (i = 0; i < 4; ++i) CHECK(pthread_create(&threads[i], NULL, run_often, session) == 0);
  for (i = 0; i < 4; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
}

static void ignore_message(int32_t level, const char* message, void* user) {
  (void)level, (void)message;
  CHECK(tessera_set_log_handler(NULL, user, NULL) == TESSERA_INVALID_ARGUMENT);
}

int main(int count, char** arguments) {
  tessera_model* model;
  tessera_session* session;
  CHECK(count == 2 && strlen(tessera_version()) > 0 && tessera_abi_version() == TESSERA_ABI_VERSION);
  CHECK(tessera_set_log_handler(ignore_message, NULL, NULL) == TESSERA_OK);
  CHECK(tessera_model_load(arguments[1], &model, NULL) == TESSERA_OK);
  CHECK(tessera_session_new(model, NULL, &session, NULL) == TESSERA_OK);
  test_description(model);
  test_run(session);
  test_faults(arguments[1], model, session);
  test_values();
  test_bytes(arguments[1]);
  test_limits(model, session);
  test_threads(session);
  tessera_session_free(session);
  tessera_model_free(model);
  CHECK(tessera_set_log_handler(NULL, NULL, NULL) == TESSERA_OK);
  return 0;
}
