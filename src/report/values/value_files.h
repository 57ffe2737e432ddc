// Named values of every kind (tensors, sequences, maps, nothing) in files.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "ir/type.h"
#include "tessera/session.h"

namespace tessera::report {

using TypesByName = std::map<std::string, ir::ValueType, std::less<>>;

// In an .npz archive a tensor NAME is one array; other values are several:
//   a map of numbers or strings         NAME/keys [n], NAME/values [n, …]
//   a sequence of maps with equal keys  NAME/keys [n], NAME/values [length, n, …]   (what ZipMap gives)
//   any other sequence                  NAME/0, NAME/1 …, each as above
// Throws Error(unsupported) for what has no place in it: an absent value, an empty sequence, a map without keys or with
// values of different types or shapes; and as io::write_npz does.
void write_values_npz(const std::filesystem::path& path, const NamedValues& values);

// Reads it back; `types` says which names are sequences and maps. An array that belongs to none of them is a tensor of
// its name. Throws Error(invalid_argument) when a part is missing or does not fit, and as io::read_npz does.
NamedValues read_values_npz(const std::filesystem::path& path, const TypesByName& types);

// An .npy file as the value `name`, whose type may stand in `types`. Types that NumPy lacks (bfloat16 …) are read, here
// and in archives, as ml_dtypes writes them; other arrays for them are refused with how to save them. Throws as
// io::read_npy.
Tensor read_tensor_npy(const std::filesystem::path& path, const std::string& name, const TypesByName& types);

// A JSON object with one member a value. A tensor is nested lists of numbers, booleans or strings (rank 0: a bare one);
// a sequence is a list; a map is an object (integer keys become text); an absent value is null. NaN and infinities,
// which JSON lacks, are the strings "NaN", "Infinity" and "-Infinity". Throws Error(unsupported) for complex tensors
// and for strings that are not UTF-8.
std::string write_values_json(const NamedValues& values);

// Reads it back, each value by its declared type. Throws Error(invalid_argument) for text that is no JSON, a name
// without a type, or a value that does not fit its type.
NamedValues read_values_json(const std::string& text, const TypesByName& types);

}  // namespace tessera::report
