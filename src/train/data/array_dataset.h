// Samples that are rows of arrays in memory, from .npz and .npy files, IDX files (MNIST) or CIFAR's binary files.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "train/data/dataset.h"

namespace tessera::train {

// `arrays` are keyed by field name. Dimension 0 counts the samples and must be equal in all of them; otherwise throws
// Error(invalid_argument). `source` names the data in messages.
std::unique_ptr<Dataset> make_array_dataset(std::map<std::string, Tensor> arrays, std::string source,
                                            std::vector<std::string> class_names = {});

// The arrays of an .npz file are the fields. Throws Error as io::read_npz and make_array_dataset do.
std::unique_ptr<Dataset> open_npz_dataset(const std::filesystem::path& path);

// MNIST's files: images u8 [N, rows, columns] become the field x f32 [1, rows, columns] in [0, 1], labels the field y
// i64. Other IDX arrays keep their type and shape. The files may be compressed with gzip.
std::unique_ptr<Dataset> open_idx_dataset(const std::filesystem::path& pictures, const std::filesystem::path& labels);

// The binary version of CIFAR-10 or CIFAR-100, a folder with data_batch_*.bin and test_batch.bin or with train.bin and
// test.bin. Fields are x f32 [3, 32, 32] in [0, 1] and y i64 (the fine label of CIFAR-100). Class names come from
// batches.meta.txt or fine_label_names.txt, if present. Format: https://www.cs.toronto.edu/~kriz/cifar.html
std::unique_ptr<Dataset> open_cifar_dataset(const std::filesystem::path& folder, bool test);

// An array in the IDX format of http://yann.lecun.com/exdb/mnist/: big-endian, of u8, i8, i16, i32, f32 or f64. Throws
// Error(not_found), Error(io), and Error(invalid_argument) for a malformed file.
Tensor read_idx(const std::filesystem::path& path);

}  // namespace tessera::train
