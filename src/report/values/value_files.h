// Reads and writes named values of every kind (tensors, sequences, maps, absent values) in files.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "ir/type.h"
#include "tessera/session.h"

namespace tessera::report {

using TypesByName = std::map<std::string, ir::ValueType, std::less<>>;

// In an .npz archive, a tensor NAME is one array; other values are several arrays:
//   a map of numbers or strings         NAME/keys [n], NAME/values [n, …]
//   a sequence of maps with equal keys  NAME/keys [n], NAME/values [length, n, …]   (the result of ZipMap)
//   any other sequence                  NAME/0, NAME/1 …, each as above
// Throws Error(unsupported) for values that this cannot represent: an absent value, an empty sequence, a map without
// keys or with values of different types or shapes; and the errors of io::write_npz.
void write_values_npz(const std::filesystem::path& path, const NamedValues& values);

// Reads such an archive; `types` tells which names are sequences and maps. An array that belongs to none of them is a
// tensor of its own name. Throws Error(invalid_argument) if a part is missing or does not fit, and the errors of
// io::read_npz.
NamedValues read_values_npz(const std::filesystem::path& path, const TypesByName& types);

// Reads an .npy file as the value `name`, whose type may be in `types`. Types that NumPy lacks (bfloat16 …) are read,
// here and in archives, as ml_dtypes writes them; for other arrays in their place, the error says how to save them.
// Throws as io::read_npy.
Tensor read_tensor_npy(const std::filesystem::path& path, const std::string& name, const TypesByName& types);

// A JSON object with one member per value. A tensor is nested lists of numbers, booleans or strings (a bare one for
// rank 0); a sequence is a list; a map is an object (integer keys become text); an absent value is null. NaN and
// infinities, which JSON lacks, are the strings "NaN", "Infinity" and "-Infinity". Throws Error(unsupported) for
// complex tensors and for strings that are not UTF-8.
std::string write_values_json(const NamedValues& values);

// Reads such an object, each value by its declared type. Throws Error(invalid_argument) for invalid JSON, a name
// without a type, or a value that does not fit its type.
NamedValues read_values_json(const std::string& text, const TypesByName& types);

}  // namespace tessera::report
