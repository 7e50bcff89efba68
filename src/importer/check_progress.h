// check_model_file() for those who show how far it is: a large file takes as long as the disk does.
#pragma once

#include <filesystem>
#include <functional>

#include "importer/model_file.h"
#include "kpt/status.h"

namespace kpt {

// As check_model_file(path) of model_file.h. `progress` is told after each entry which part of the file's content has
// been compared, from 0 to 1.
Result<CheckedFile> check_model_file(const std::filesystem::path& path, const std::function<void(double)>& progress);

}  // namespace kpt
