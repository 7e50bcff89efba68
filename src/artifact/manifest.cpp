#include "artifact/manifest.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "archive/json_reader.h"
#include "artifact/artifact.h"
#include "base/text.h"

namespace kpt::artifact {
namespace {

constexpr std::string_view kFormat = "kpt";

// Throws when `text` is not UTF-8.
std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

std::string quoted_list(const std::vector<std::string>& texts) {
  std::vector<std::string> parts;
  parts.reserve(texts.size());
  for (const std::string& text : texts) parts.push_back(quoted(text));
  return "[" + join(parts, ",") + "]";
}

std::string print(const EntryCheck& check) {
  return fmt::format(R"({{"bytes":{},"crc32c":{}}})", check.bytes, check.crc32c);
}

std::string print(const TensorRecord& record) {
  return fmt::format(R"({{{}"dtype":"{}","dims":[{}],"strides":[{}],"offset":{}}})",
                     record.block ? fmt::format(R"("block":{},)", *record.block) : "", to_string(record.dtype),
                     fmt::join(record.dims, ","), fmt::join(record.strides, ","), record.offset);
}

std::string print(const TargetRecord& target) {
  std::vector<std::string> weights;
  weights.reserve(target.weights.size());
  for (const auto& [name, record] : target.weights) weights.push_back(quoted(name) + ":" + print(record));
  return fmt::format("{{\"name\":{},\"needs\":{},\n\"graph\":{},\"report\":{},{}\n\"weights\":{{{}}}}}",
                     quoted(target.name), quoted_list(target.needs), print(target.graph), print(target.report),
                     target.program ? fmt::format("\"program\":{},", print(*target.program)) : "",
                     join(weights, ",\n"));
}

std::string print(const std::vector<NamedRecord>& records) {
  std::vector<std::string> parts;
  parts.reserve(records.size());
  for (const NamedRecord& record : records) {
    parts.push_back(fmt::format(R"({{"name":{},"tensor":{}}})", quoted(record.name), print(record.tensor)));
  }
  return "[" + join(parts, ",\n") + "]";
}

std::string print(const SampleRecord& sample) {
  return fmt::format("{{{}\"inputs\":{},\n\"outputs\":{},\n\"reference\":{}}}",
                     sample.target.empty() ? "" : fmt::format("\"target\":{},\n", quoted(sample.target)),
                     print(sample.inputs), print(sample.outputs), print(sample.reference));
}

template <typename T>
std::string print_list(const std::vector<T>& items) {
  std::vector<std::string> parts;
  parts.reserve(items.size());
  for (const T& item : items) parts.push_back(print(item));
  return "[" + join(parts, ",\n") + "]";
}

// Reads one object with a fixed set of members: each once, none missing but the optional ones, none unknown.
class Members {
 public:
  Members(JsonReader* reader, std::vector<std::string_view> names, std::vector<std::string_view> optional = {})
      : reader_(reader), missing_(std::move(names)), optional_(std::move(optional)) {}

  // `read(key)` is called for known members.
  template <typename Read>
  Status object(const Read& read) {
    KPT_RETURN_IF_ERROR(reader_->object([&](std::string_view key) -> Status {
      if (const auto may = std::ranges::find(optional_, key); may != optional_.end()) return read(*may);
      const auto found = std::ranges::find(missing_, key);
      // Twice is refused by the reader: what is not missing is unknown.
      if (found == missing_.end()) return reader_->error(fmt::format("an unknown member '{}'", printable(key, 64)));
      const std::string_view name = *found;
      missing_.erase(found);
      return read(name);
    }));
    if (!missing_.empty()) return reader_->error(fmt::format("a value without its member '{}'", missing_.front()));
    return {};
  }

 private:
  JsonReader* reader_;
  std::vector<std::string_view> missing_;
  std::vector<std::string_view> optional_;
};

class ManifestReader {
 public:
  ManifestReader(std::string_view text, std::string name) : reader_(text, std::move(name)) {}

  Result<Manifest> read() {
    Members members(&reader_,
                    {"format", "version", "producer", "source", "source_sha256", "blocks", "targets", "samples"});
    KPT_RETURN_IF_ERROR(members.object([&](std::string_view key) -> Status {
      if (key == "producer") return reader_.string(&manifest_.producer);
      if (key == "source") return reader_.string(&manifest_.source);
      if (key == "source_sha256") return reader_.string(&manifest_.source_sha256);
      if (key == "blocks") return blocks();
      if (key == "targets") return targets();
      if (key == "samples") return samples();
      return reader_.skip();  // format and version: check_version() has looked at them
    }));
    KPT_RETURN_IF_ERROR(reader_.finish());
    if (manifest_.targets.empty()) return reader_.error("no target");
    if (most_block_ && *most_block_ >= manifest_.blocks.size()) {
      return reader_.error(fmt::format("block {} of {}", *most_block_, manifest_.blocks.size()));
    }
    for (const SampleRecord& sample : manifest_.samples) {
      const bool known =
          std::ranges::find(manifest_.targets, sample.target, &TargetRecord::name) != manifest_.targets.end();
      if (known || sample.target.empty()) continue;
      return reader_.error(
          fmt::format("a sample of the target '{}', which is not there", printable(sample.target, 64)));
    }
    return std::move(manifest_);
  }

 private:
  Status count(std::uint64_t* value, std::int64_t most) {
    std::int64_t number = 0;
    KPT_RETURN_IF_ERROR(reader_.integer(&number));
    if (number < 0 || number > most) return reader_.error(fmt::format("the number {}", number));
    *value = static_cast<std::uint64_t>(number);
    return {};
  }

  Status check(EntryCheck* value) {
    return Members(&reader_, {"bytes", "crc32c"}).object([&](std::string_view key) -> Status {
      if (key == "bytes") return count(&value->bytes, std::numeric_limits<std::int64_t>::max());
      std::uint64_t crc = 0;
      KPT_RETURN_IF_ERROR(count(&crc, std::numeric_limits<std::uint32_t>::max()));
      value->crc32c = static_cast<std::uint32_t>(crc);
      return {};
    });
  }

  Status blocks() {
    return reader_.array([&] { return check(&manifest_.blocks.emplace_back()); });
  }

  Status dims(Dims* value) {
    return reader_.array([&]() -> Status {
      if (value->size() == kMaxRank) return reader_.error(fmt::format("a rank above {}", kMaxRank));
      std::int64_t extent = 0;
      KPT_RETURN_IF_ERROR(reader_.integer(&extent));
      if (extent < 0) return reader_.error("a negative extent or stride");
      value->push_back(extent);
      return {};
    });
  }

  Status tensor(TensorRecord* record) {
    std::vector<std::string_view> members = {"dtype", "dims", "strides", "offset"};
    // A tensor without elements has no block; who has which is known only afterwards, so both forms are read.
    const Status status = reader_.object([&](std::string_view key) -> Status {
      if (const auto found = std::ranges::find(members, key); found != members.end()) members.erase(found);
      if (key == "block") {
        std::uint64_t block = 0;
        KPT_RETURN_IF_ERROR(count(&block, std::numeric_limits<std::int64_t>::max()));
        record->block = block;
        most_block_ = std::max<std::size_t>(most_block_.value_or(0), block);
        return {};
      }
      if (key == "dtype") return dtype(&record->dtype);
      if (key == "dims") return dims(&record->dims);
      if (key == "strides") return dims(&record->strides);
      if (key == "offset") return reader_.integer(&record->offset);
      return reader_.error(fmt::format("an unknown member '{}'", printable(key, 64)));
    });
    KPT_RETURN_IF_ERROR(status);
    if (!members.empty()) return reader_.error(fmt::format("a tensor without '{}'", members.front()));
    return {};
  }

  Status dtype(DType* value) {
    std::string name;
    KPT_RETURN_IF_ERROR(reader_.string(&name));
    const std::optional<DType> found = find_dtype(name);
    if (!found) return reader_.error(fmt::format("the element type '{}'", printable(name, 64)));
    *value = *found;
    return {};
  }

  Status words(std::vector<std::string>* values) {
    return reader_.array([&]() -> Status {
      std::string& word = values->emplace_back();
      KPT_RETURN_IF_ERROR(reader_.string(&word));
      if (word.empty()) return reader_.error("an empty text");
      return {};
    });
  }

  Status targets() {
    return reader_.array([&]() -> Status {
      if (manifest_.targets.size() == kMaxTargets) return reader_.error("too many targets");
      TargetRecord& target = manifest_.targets.emplace_back();
      Members members(&reader_, {"name", "needs", "graph", "report", "weights"}, {"program"});
      KPT_RETURN_IF_ERROR(members.object([&](std::string_view key) -> Status {
        if (key == "name") return reader_.string(&target.name);
        if (key == "needs") return words(&target.needs);
        if (key == "graph") return check(&target.graph);
        if (key == "report") return check(&target.report);
        if (key == "program") return check(&target.program.emplace());
        return reader_.object([&](std::string_view name) { return tensor(&target.weights[std::string(name)]); });
      }));
      const auto same = std::ranges::count(manifest_.targets, target.name, &TargetRecord::name);
      if (target.name.empty() || same > 1) return reader_.error("a target whose name is empty or there twice");
      return {};
    });
  }

  Status named_tensors(std::vector<NamedRecord>* records) {
    std::set<std::string> names;
    return reader_.array([&]() -> Status {
      NamedRecord& record = records->emplace_back();
      Members members(&reader_, {"name", "tensor"});
      KPT_RETURN_IF_ERROR(members.object([&](std::string_view key) -> Status {
        return key == "name" ? reader_.string(&record.name) : tensor(&record.tensor);
      }));
      if (!names.insert(record.name).second) {
        return reader_.error(fmt::format("'{}' twice in one sample", printable(record.name, 200)));
      }
      return {};
    });
  }

  Status samples() {
    return reader_.array([&]() -> Status {
      if (manifest_.samples.size() == kMaxSamples) return reader_.error("too many samples");
      SampleRecord& sample = manifest_.samples.emplace_back();
      Members members(&reader_, {"inputs", "outputs", "reference"}, {"target"});
      return members.object([&](std::string_view key) -> Status {
        if (key == "target") {
          KPT_RETURN_IF_ERROR(reader_.string(&sample.target));
          return sample.target.empty() ? reader_.error("an empty text") : Status();
        }
        if (key == "inputs") return named_tensors(&sample.inputs);
        return named_tensors(key == "outputs" ? &sample.outputs : &sample.reference);
      });
    });
  }

  JsonReader reader_;
  Manifest manifest_;
  std::optional<std::size_t> most_block_;
};

Status check_version(std::string_view text, const std::string& name) {
  JsonReader reader(text, name);
  std::string format;
  std::int64_t version = 0;
  KPT_RETURN_IF_ERROR(reader.object([&](std::string_view key) -> Status {
    if (key == "format") return reader.string(&format);
    if (key == "version") return reader.integer(&version);
    return reader.skip();
  }));
  if (format != kFormat) return reader.error(fmt::format("the format '{}' instead of 'kpt'", printable(format, 64)));
  if (version == kArtifactVersion) return {};
  return {StatusCode::kVersionMismatch,
          fmt::format("{}: format version {}, this program reads version {}; write the file again with `kpt optimize`",
                      name, version, kArtifactVersion)};
}

}  // namespace

std::string graph_entry(std::size_t target) { return fmt::format("targets/{}/graph.txt", target); }
std::string report_entry(std::size_t target) { return fmt::format("targets/{}/report.json", target); }
std::string program_entry(std::size_t target) { return fmt::format("targets/{}/program", target); }
std::string block_entry(std::size_t block) { return fmt::format("blocks/{}", block); }

Result<std::string> print_manifest(const Manifest& manifest) {
  try {
    return fmt::format(
        "{{\"format\":\"{}\",\"version\":{},\n\"producer\":{},\"source\":{},\"source_sha256\":{},\n"
        "\"targets\":{},\n\"samples\":{},\n\"blocks\":{}}}",
        kFormat, kArtifactVersion, quoted(manifest.producer), quoted(manifest.source), quoted(manifest.source_sha256),
        print_list(manifest.targets), print_list(manifest.samples), print_list(manifest.blocks));
  } catch (const nlohmann::json::exception&) {
    return Status(StatusCode::kInvalidArgument, "a name or text of the artifact is not UTF-8");
  }
}

Result<Manifest> read_manifest(std::string_view text, const std::string& name) {
  KPT_RETURN_IF_ERROR(check_version(text, name));
  return ManifestReader(text, name).read();
}

}  // namespace kpt::artifact
