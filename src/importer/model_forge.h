// Model files changed entry by entry, also into wrong ones: for tests only.
#pragma once

#include <sys/resource.h>

#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "archive/mapped_file.h"
#include "archive/zip.h"
#include "archive/zip_forge.h"

namespace kpt::testing {

// The most that this process has held so far.
inline long peak_memory_kib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// An archive with the entries of a file, ready to be changed.
inline ForgedZip forge_model(const std::filesystem::path& path) {
  const ZipArchive archive = ZipArchive::open(MappedFile::open(path).value()).value();
  ForgedZip zip;
  for (const ZipEntry& entry : archive.entries()) {
    ForgedEntry forged;
    forged.name = entry.name;
    forged.content = archive.read(entry, 1 << 20).value();
    zip.entries.push_back(std::move(forged));
  }
  return zip;
}

// The entry whose name ends so; throws when there is none.
inline ForgedEntry& find_entry(ForgedZip& zip, std::string_view ending) {
  for (ForgedEntry& entry : zip.entries) {
    if (entry.name.ends_with(ending)) return entry;
  }
  throw std::out_of_range("no entry ends with " + std::string(ending));
}

// The nodes of the program, to be changed by `change`.
inline void change_nodes(ForgedZip& zip, const std::function<void(nlohmann::json&)>& change) {
  ForgedEntry& model = find_entry(zip, "models/model.json");
  nlohmann::json tree = nlohmann::json::parse(model.content);
  change(tree.at("graph_module").at("graph").at("nodes"));
  model.content = tree.dump();
}

// The first of them with this target, which has the prefix "torch.ops." in the file.
inline nlohmann::json& find_node(nlohmann::json& nodes, const std::string& target) {
  for (nlohmann::json& node : nodes) {
    if (node.at("target") == "torch.ops." + target) return node;
  }
  throw std::out_of_range("no node " + target);
}

}  // namespace kpt::testing
