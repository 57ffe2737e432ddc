/*
 * Tessera for C, and for every language that can call C. Strict C99; link libtessera.so (pkg-config tessera, or CMake's
 * tessera::tessera_shared).
 *
 * The interface is 0.x: it may change until version 1 of the library, and TESSERA_ABI_VERSION with it.
 *
 * Status and errors. Functions that can fail return a tessera_status: TESSERA_OK, or the number that the command line
 * exits with for the same fault. Their last parameter is `tessera_error** error`, which may be NULL. If it is not,
 * *error is set to NULL on success and to a new error object on failure, which the caller frees; what *error held
 * before is not freed. No C++ exception leaves the library. On failure, other results are set to NULL where nothing
 * else is said. Functions that return a number or pointer instead of a status cannot fail but by a NULL or foreign
 * handle or an index out of range, for which they return 0, -1 or NULL as said.
 *
 * Ownership. Handles from functions with _new, _load, _view … are the caller's and are freed with the _free function of
 * their type, once; freeing NULL does nothing. Handles keep what they were made of: a model may be freed before its
 * sessions, a sequence before the values that were taken out of it. `const char*` and other pointers into a handle live
 * as long as the handle. Texts that go in are copied. A handle of another type is refused; a handle that was freed must
 * not be used.
 *
 * Threads. A function may be called from any thread. Models, sessions, values and errors may be used by many threads at
 * once as long as none frees them meanwhile; runs of one session may be concurrent. Options are for one thread at a
 * time, and may be freed as soon as the call that they were given to returns.
 */
#ifndef TESSERA_TESSERA_H
#define TESSERA_TESSERA_H

#include <stddef.h>
#include <stdint.h>

#include "tessera/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Changes when a program that was linked against the library before would not work with it; the number in
 * libtessera.so.N. */
#define TESSERA_ABI_VERSION 0

typedef int32_t tessera_status;
enum {
  TESSERA_OK = 0,
  TESSERA_INVALID_ARGUMENT = 2, /* a wrong call: NULL, unknown input name, wrong type, rank or dimension */
  TESSERA_INVALID_MODEL = 3,    /* the model breaks the rules of its format or of an operator */
  TESSERA_UNSUPPORTED = 4,      /* the model is legal, but Tessera does not have what it asks for */
  TESSERA_NOT_FOUND = 5,        /* a file or a named thing does not exist */
  TESSERA_IO = 6,               /* reading or writing failed */
  TESSERA_OVER_BUDGET = 7,      /* memory, time, size or depth beyond the set limit, or the system has no more memory */
  TESSERA_CANCELLED = 8,        /* the caller asked a run to stop */
  TESSERA_FAILED = 9,           /* a run failed on its data: index out of range, division by zero … */
  TESSERA_INTERNAL = 70         /* a bug in Tessera */
};

/* Element types; the values are those of ONNX's TensorProto.DataType. */
typedef int32_t tessera_dtype;
enum {
  TESSERA_UNDEFINED = 0,
  TESSERA_F32 = 1,
  TESSERA_U8 = 2,
  TESSERA_I8 = 3,
  TESSERA_U16 = 4,
  TESSERA_I16 = 5,
  TESSERA_I32 = 6,
  TESSERA_I64 = 7,
  TESSERA_STRING = 8,
  TESSERA_BOOL = 9,
  TESSERA_F16 = 10,
  TESSERA_F64 = 11,
  TESSERA_U32 = 12,
  TESSERA_U64 = 13,
  TESSERA_C64 = 14,
  TESSERA_C128 = 15,
  TESSERA_BF16 = 16,
  TESSERA_F8E4M3FN = 17,
  TESSERA_F8E4M3FNUZ = 18,
  TESSERA_F8E5M2 = 19,
  TESSERA_F8E5M2FNUZ = 20,
  TESSERA_U4 = 21,
  TESSERA_I4 = 22,
  TESSERA_F4E2M1 = 23,
  TESSERA_F8E8M0 = 24,
  TESSERA_U2 = 25,
  TESSERA_I2 = 26
};

/* How important a run is. */
typedef int32_t tessera_priority;
enum { TESSERA_PRIORITY_BACKGROUND = 0, TESSERA_PRIORITY_STANDARD = 1, TESSERA_PRIORITY_REALTIME = 2 };

typedef struct tessera_error tessera_error;
typedef struct tessera_model tessera_model;
typedef struct tessera_value_info tessera_value_info;
typedef struct tessera_value tessera_value;
typedef struct tessera_devices tessera_devices;
typedef struct tessera_session_options tessera_session_options;
typedef struct tessera_session tessera_session;
typedef struct tessera_run_options tessera_run_options;
typedef struct tessera_cancellation tessera_cancellation;

/* --- the library ----------------------------------------------------------------------------------------- */

/* "0.1.0"; static. */
TESSERA_API const char* tessera_version(void);
/* TESSERA_ABI_VERSION of the library that runs. */
TESSERA_API int32_t tessera_abi_version(void);

/* Receives warnings (level 1) and details (level 2), one at a time and from any thread; `message` lives as long as the
 * call. */
typedef void (*tessera_log_handler)(int32_t level, const char* message, void* user);
/* Replaces the handler of the process; NULL, the default, drops all messages. When this returns, the previous handler
 * will not be called any more. TESSERA_INVALID_ARGUMENT when called by a handler. */
TESSERA_API tessera_status tessera_set_log_handler(tessera_log_handler handler, void* user, tessera_error** error);

/* --- errors ---------------------------------------------------------------------------------------------- */

/* TESSERA_OK for NULL. */
TESSERA_API tessera_status tessera_error_status(const tessera_error* error);
/* One line with the places that the error passed through, for people; "" for NULL. */
TESSERA_API const char* tessera_error_message(const tessera_error* error);
TESSERA_API void tessera_error_free(tessera_error* error);

/* --- models ---------------------------------------------------------------------------------------------- */

/* Reads an .onnx file or maps a .tsr file. A protected .tsr file is opened by the key that the environment names
 * (TESSERA_KEY_FILE, TESSERA_KEY_COMMAND or TESSERA_PASSWORD_FILE). */
TESSERA_API tessera_status tessera_model_load(const char* path, tessera_model** model, tessera_error** error);
/* Where the key of a protected file comes from. */
typedef enum tessera_key_source {
  TESSERA_KEY_FILE = 0,          /* a key file, symmetric or recipient-secret */
  TESSERA_KEY_COMMAND = 1,       /* a shell command that prints a key file */
  TESSERA_KEY_PASSWORD_FILE = 2, /* a file with one line */
} tessera_key_source;
/* The same with a key of its own. `where`: the path, or the command. */
TESSERA_API tessera_status tessera_model_load_protected(const char* path, tessera_key_source source, const char* where,
                                                        tessera_model** model, tessera_error** error);
/* The same from memory. External data may lie below `external_data_folder`; if that is NULL they are refused. `release`
 * NULL: the bytes are read during this call only. Else the model may use them in place, and release(user) is called
 * once, from any thread, when nothing needs them any more (also if this fails, then before it returns). */
TESSERA_API tessera_status tessera_model_load_bytes(const void* bytes, size_t size, const char* external_data_folder,
                                                    void (*release)(void* user), void* user, tessera_model** model,
                                                    tessera_error** error);
/* A model with symbolic dimensions of the inputs fixed: names[i] is sizes[i]. */
TESSERA_API tessera_status tessera_model_with_dims(const tessera_model* model, const char* const* names,
                                                   const int64_t* sizes, size_t count, tessera_model** result,
                                                   tessera_error** error);
TESSERA_API void tessera_model_free(tessera_model* model);

/* In the model's order; the descriptions belong to the model. 0 and NULL for a bad handle or index. */
TESSERA_API size_t tessera_model_input_count(const tessera_model* model);
TESSERA_API size_t tessera_model_output_count(const tessera_model* model);
TESSERA_API const tessera_value_info* tessera_model_input(const tessera_model* model, size_t index);
TESSERA_API const tessera_value_info* tessera_model_output(const tessera_model* model, size_t index);

TESSERA_API const char* tessera_value_info_name(const tessera_value_info* info);
/* The declared type as text: "f32[batch, 3, 224, 224]", "seq(map(i64, f32[]))". */
TESSERA_API const char* tessera_value_info_type(const tessera_value_info* info);
/* TESSERA_UNDEFINED for what is not a tensor. */
TESSERA_API tessera_dtype tessera_value_info_dtype(const tessera_value_info* info);
/* Number of dimensions; -1 where it is not known, and for what is not a tensor. */
TESSERA_API int64_t tessera_value_info_rank(const tessera_value_info* info);
/* A dimension; -1 where it is not known. */
TESSERA_API int64_t tessera_value_info_dim(const tessera_value_info* info, size_t index);
/* Its symbolic name; "" where it has none. */
TESSERA_API const char* tessera_value_info_dim_name(const tessera_value_info* info, size_t index);

typedef int32_t tessera_metadata_field;
enum {
  TESSERA_PRODUCER_NAME = 0,
  TESSERA_PRODUCER_VERSION = 1,
  TESSERA_DOMAIN = 2,
  TESSERA_DOC_STRING = 3,
  TESSERA_GRAPH_NAME = 4
};
/* What the file says about itself, in its own bytes; "" where it says nothing, NULL for a bad handle or field. */
TESSERA_API const char* tessera_model_metadata(const tessera_model* model, tessera_metadata_field field);
TESSERA_API int64_t tessera_model_version(const tessera_model* model);
/* Version of the operator set of a domain ("ai.onnx" is the default one); 0 when the model uses none. */
TESSERA_API int64_t tessera_model_opset(const tessera_model* model, const char* domain);
/* The file's own properties (metadata_props), in the order of their keys. */
TESSERA_API size_t tessera_model_property_count(const tessera_model* model);
TESSERA_API const char* tessera_model_property_key(const tessera_model* model, size_t index);
/* The value of a key; NULL when there is none. */
TESSERA_API const char* tessera_model_property(const tessera_model* model, const char* key);

/* --- values ---------------------------------------------------------------------------------------------- */

typedef int32_t tessera_kind;
enum { TESSERA_NONE = 0, TESSERA_TENSOR = 1, TESSERA_SEQUENCE = 2, TESSERA_MAP = 3 };

/* Tensors are dense and row-major. `bytes` must be what type and shape take; elements under 8 bits are packed, low bits
 * first. Not for strings. _view: a tensor that reads the caller's memory where it is; _wrap: one that may be written to
 * as well, for outputs. The memory must live and, while runs use it, stay unchanged as long as the value does. _copy: a
 * tensor with memory of its own. */
TESSERA_API tessera_status tessera_value_view(tessera_dtype dtype, const int64_t* shape, size_t rank, const void* data,
                                              size_t bytes, tessera_value** value, tessera_error** error);
TESSERA_API tessera_status tessera_value_wrap(tessera_dtype dtype, const int64_t* shape, size_t rank, void* data,
                                              size_t bytes, tessera_value** value, tessera_error** error);
TESSERA_API tessera_status tessera_value_copy(tessera_dtype dtype, const int64_t* shape, size_t rank, const void* data,
                                              size_t bytes, tessera_value** value, tessera_error** error);
/* A tensor of strings, copied. `lengths` NULL: each ends with a zero byte. */
TESSERA_API tessera_status tessera_value_strings(const int64_t* shape, size_t rank, const char* const* strings,
                                                 const size_t* lengths, size_t count, tessera_value** value,
                                                 tessera_error** error);
/* They share the parts' memory; the parts may be freed. Keys are a 1-D tensor of i64 or strings without repetitions. */
TESSERA_API tessera_status tessera_value_sequence(const tessera_value* const* elements, size_t count,
                                                  tessera_value** value, tessera_error** error);
TESSERA_API tessera_status tessera_value_map(const tessera_value* keys, const tessera_value* const* values,
                                             size_t count, tessera_value** value, tessera_error** error);
TESSERA_API void tessera_value_free(tessera_value* value);

/* TESSERA_NONE for an absent optional and for a bad handle. */
TESSERA_API tessera_kind tessera_value_kind(const tessera_value* value);
/* Of tensors; TESSERA_UNDEFINED, -1, NULL or 0 for others. */
TESSERA_API tessera_dtype tessera_value_dtype(const tessera_value* value);
TESSERA_API int64_t tessera_value_rank(const tessera_value* value);
TESSERA_API const int64_t* tessera_value_shape(const tessera_value* value);
TESSERA_API size_t tessera_value_element_count(const tessera_value* value);
TESSERA_API size_t tessera_value_bytes(const tessera_value* value);
/* NULL for strings too. */
TESSERA_API const void* tessera_value_data(const tessera_value* value);
/* A string of a tensor, with a zero byte behind it; its length goes to *length unless that is NULL. NULL for a bad
 * index. */
TESSERA_API const char* tessera_value_string(const tessera_value* value, size_t index, size_t* length);
/* Number of elements of a sequence or of keys of a map; 0 for others. */
TESSERA_API size_t tessera_value_length(const tessera_value* value);
/* An element of a sequence, or the value of a map's key of that index; the keys of a map. New handles that share the
 * memory. */
TESSERA_API tessera_status tessera_value_element(const tessera_value* value, size_t index, tessera_value** element,
                                                 tessera_error** error);
TESSERA_API tessera_status tessera_value_keys(const tessera_value* value, tessera_value** keys, tessera_error** error);

/* --- devices --------------------------------------------------------------------------------------------- */

/* The devices that a session can run on; of simulated ones, those that the process has used. */
TESSERA_API tessera_status tessera_devices_new(tessera_devices** devices, tessera_error** error);
TESSERA_API void tessera_devices_free(tessera_devices* devices);
TESSERA_API size_t tessera_devices_count(const tessera_devices* devices);
/* For tessera_session_options_set_device: "cpu", "simulated:h100-sxm". Texts live as long as the list; they are "", and
 * numbers 0, for what is not known and for an index beyond the list. */
TESSERA_API const char* tessera_device_name(const tessera_devices* devices, size_t index);
/* "NVIDIA H100 SXM5 80 GB", or the model of the processor. */
TESSERA_API const char* tessera_device_product(const tessera_devices* devices, size_t index);
/* A name that stays the same when devices are numbered anew; it also serves as a name of the device. */
TESSERA_API const char* tessera_device_uuid(const tessera_devices* devices, size_t index);
/* "avx512+vnni+bf16", "sm_90" */
TESSERA_API const char* tessera_device_instruction_set(const tessera_devices* devices, size_t index);
TESSERA_API int64_t tessera_device_memory_bytes(const tessera_devices* devices, size_t index);
/* Of a CPU: the cores that the process may use. */
TESSERA_API int32_t tessera_device_multiprocessors(const tessera_devices* devices, size_t index);

/* --- sessions -------------------------------------------------------------------------------------------- */

/* NULL only when the system has no more memory. */
TESSERA_API tessera_session_options* tessera_session_options_new(void);
TESSERA_API void tessera_session_options_free(tessera_session_options* options);
/* "cpu" (the default), "reference" …, or the UUID of a device */
TESSERA_API tessera_status tessera_session_options_set_device(tessera_session_options* options, const char* device,
                                                              tessera_error** error);
/* Most threads of a run; 0, the default: all cores that the process may use. */
TESSERA_API tessera_status tessera_session_options_set_threads(tessera_session_options* options, int32_t threads,
                                                               tessera_error** error);
/* What layers of f32 multiply in: TESSERA_F32, TESSERA_BF16, or TESSERA_UNDEFINED, the default: what a .tsr file was
 * made with, f32 for other models. */
TESSERA_API tessera_status tessera_session_options_set_precision(tessera_session_options* options,
                                                                 tessera_dtype precision, tessera_error** error);
/* Of all memory that the session uses; 0, the default: nine tenths of what the process may use. */
TESSERA_API tessera_status tessera_session_options_set_memory_limit(tessera_session_options* options, int64_t bytes,
                                                                    tessera_error** error);
/* Of the memory of a device that has its own; 0, the default: all of it. */
TESSERA_API tessera_status tessera_session_options_set_device_memory_limit(tessera_session_options* options,
                                                                           int64_t bytes, tessera_error** error);
/* Makes the sequence of the session's runs repeatable: what random operators draw in the first run, in the second and
 * so on depends on the seed alone. Without a seed each run draws numbers that no other run draws. */
TESSERA_API tessera_status tessera_session_options_set_seed(tessera_session_options* options, uint64_t seed,
                                                            tessera_error** error);

/* A model on a device. `options` may be NULL. */
TESSERA_API tessera_status tessera_session_new(const tessera_model* model, const tessera_session_options* options,
                                               tessera_session** session, tessera_error** error);
/* No run may be in progress. */
TESSERA_API void tessera_session_free(tessera_session* session);

/* Runs the model: all of its inputs by name, and the outputs that are asked for by name, in that order; only what they
 * need is computed. `output_names` NULL: all outputs in the model's order, output_count as the model has them.
 * outputs[i] is NULL on entry, or a value of tessera_value_wrap of exactly the output's type and shape: then the output
 * is written there and the handle stays. Where it was NULL, it gets a new value on success and stays NULL on failure.
 * `options` may be NULL. */
TESSERA_API tessera_status tessera_session_run(tessera_session* session, const char* const* input_names,
                                               const tessera_value* const* inputs, size_t input_count,
                                               const char* const* output_names, tessera_value** outputs,
                                               size_t output_count, const tessera_run_options* options,
                                               tessera_error** error);
/* Bytes that the session uses now: weights, plans, results that somebody keeps; 0 for a bad handle. */
TESSERA_API int64_t tessera_session_memory_bytes(const tessera_session* session);
/* Gives idle memory of the process back to the system now, instead of when nothing ran for a while. */
TESSERA_API tessera_status tessera_session_trim(tessera_session* session, tessera_error** error);

/* NULL only when the system has no more memory. */
TESSERA_API tessera_run_options* tessera_run_options_new(void);
TESSERA_API void tessera_run_options_free(tessera_run_options* options);
/* Two runs with the same seed draw the same random numbers. By default a run draws as its session's seed says. */
TESSERA_API tessera_status tessera_run_options_set_seed(tessera_run_options* options, uint64_t seed,
                                                        tessera_error** error);
/* The run ends with TESSERA_OVER_BUDGET soon after that long; 0, the default: no limit. */
TESSERA_API tessera_status tessera_run_options_set_time_limit_ns(tessera_run_options* options, int64_t time_limit_ns,
                                                                 tessera_error** error);
/* TESSERA_PRIORITY_STANDARD by default. Where cores are short, a run of a higher class takes them from runs of lower
 * classes, and a background run computes while no other class needs the core. */
TESSERA_API tessera_status tessera_run_options_set_priority(tessera_run_options* options, tessera_priority priority,
                                                            tessera_error** error);
/* The cancellation must outlive the runs that it is given to; NULL takes it out. */
TESSERA_API tessera_status tessera_run_options_set_cancellation(tessera_run_options* options,
                                                                const tessera_cancellation* cancellation,
                                                                tessera_error** error);

/* NULL only when the system has no more memory. */
TESSERA_API tessera_cancellation* tessera_cancellation_new(void);
TESSERA_API void tessera_cancellation_free(tessera_cancellation* cancellation);
/* From any thread: runs with it, present and later, soon end with TESSERA_CANCELLED. Async-signal-safe. */
TESSERA_API void tessera_cancellation_cancel(tessera_cancellation* cancellation);

#ifdef __cplusplus
}
#endif

#endif
