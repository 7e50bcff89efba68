// Any bytes as a model archive: never a crash, every weight lies inside its buffer, and source lines can be asked for.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "archive/zip.h"
#include "importer/import_archive.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const kpt::Result<kpt::ZipArchive> archive = kpt::ZipArchive::from_bytes(bytes, "fuzz.pt2");
  if (!archive.ok()) return 0;
  const kpt::Result<kpt::ImportedModel> model =
      kpt::import_archive(*archive, {.model_name = "", .weights = {}, .read_sample_inputs = true});
  if (!model.ok()) return 0;
  for (const auto& [name, tensor] : model->weights) {
    if (tensor.element_count() > 0 && !tensor.contiguous_copy().ok()) std::abort();
  }
  for (const kpt::ir::Node& node : model->graph.nodes) (void)kpt::find_source_line(*model, node);
  return 0;
}
