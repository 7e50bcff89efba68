#include "backends/amd/code_object.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "backends/amd/msgpack.h"
#include "base/little_endian.h"
#include "base/text.h"

namespace kpt {
namespace {

constexpr std::size_t kHeaderBytes = 64;
constexpr std::size_t kProgramHeaderBytes = 56;
constexpr std::uint16_t kMachineAmdGpu = 224;
constexpr std::uint32_t kSegmentNote = 4;
constexpr std::uint32_t kMetadataNote = 32;

Status broken(std::string_view what) {
  return {StatusCode::kCorruptData, fmt::format("not a code object for an AMD GPU: {}", what)};
}

// `size` bytes from `offset`, if they are there.
std::optional<std::span<const std::byte>> part_of(std::span<const std::byte> bytes, std::uint64_t offset,
                                                  std::uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) return std::nullopt;
  return bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
}

std::size_t padded(std::uint32_t size) { return (static_cast<std::size_t>(size) + 3) / 4 * 4; }

// The metadata among the notes of one segment.
std::optional<std::span<const std::byte>> find_metadata(std::span<const std::byte> notes) {
  while (notes.size() >= 12) {
    const auto name_bytes = load_little_endian<std::uint32_t>(notes.data());
    const auto content_bytes = load_little_endian<std::uint32_t>(notes.data() + 4);
    const auto type = load_little_endian<std::uint32_t>(notes.data() + 8);
    notes = notes.subspan(12);
    const auto name = part_of(notes, 0, name_bytes);
    if (!name || padded(name_bytes) > notes.size()) return std::nullopt;
    notes = notes.subspan(padded(name_bytes));
    const auto content = part_of(notes, 0, content_bytes);
    if (!content) return std::nullopt;
    const std::string_view text(reinterpret_cast<const char*>(name->data()), name->size());
    if (type == kMetadataNote && text == std::string_view("AMDGPU\0", 7)) return content;
    notes = notes.subspan(std::min(padded(content_bytes), notes.size()));
  }
  return std::nullopt;
}

Result<std::span<const std::byte>> read_metadata(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes) return broken("it is shorter than a header");
  static constexpr unsigned char kMagic[6] = {0x7f, 'E', 'L', 'F', 2, 1};  // 64 bits, little endian
  for (std::size_t i = 0; i < sizeof kMagic; ++i) {
    if (std::to_integer<unsigned char>(bytes[i]) != kMagic[i]) return broken("it is no ELF file of 64 bits");
  }
  if (load_little_endian<std::uint16_t>(bytes.data() + 18) != kMachineAmdGpu)
    return broken("it is for another machine");
  const auto table = load_little_endian<std::uint64_t>(bytes.data() + 32);
  const auto entry_bytes = load_little_endian<std::uint16_t>(bytes.data() + 54);
  const auto entries = load_little_endian<std::uint16_t>(bytes.data() + 56);
  if (entry_bytes != kProgramHeaderBytes) return broken("its program headers have another size");
  const auto headers = part_of(bytes, table, std::uint64_t{entries} * kProgramHeaderBytes);
  if (!headers) return broken("its program headers are outside the file");
  for (std::size_t index = 0; index < entries; ++index) {
    const std::byte* header = headers->data() + index * kProgramHeaderBytes;
    if (load_little_endian<std::uint32_t>(header) != kSegmentNote) continue;
    const auto notes =
        part_of(bytes, load_little_endian<std::uint64_t>(header + 8), load_little_endian<std::uint64_t>(header + 32));
    if (!notes) return broken("its notes are outside the file");
    if (const auto metadata = find_metadata(*notes)) return *metadata;
  }
  return broken("it has no note with metadata");
}

struct Field {
  std::string_view key;
  std::uint64_t KernelResources::* member;
};

constexpr Field kFields[] = {
    {".vgpr_count", &KernelResources::vector_registers},
    {".agpr_count", &KernelResources::accumulation_registers},
    {".sgpr_count", &KernelResources::scalar_registers},
    {".vgpr_spill_count", &KernelResources::vector_spills},
    {".sgpr_spill_count", &KernelResources::scalar_spills},
    {".group_segment_fixed_size", &KernelResources::lds_bytes},
    {".private_segment_fixed_size", &KernelResources::private_bytes},
    {".kernarg_segment_size", &KernelResources::argument_bytes},
    {".wavefront_size", &KernelResources::wavefront_size},
    {".max_flat_workgroup_size", &KernelResources::max_threads},
};

Result<KernelResources> read_kernel(MsgpackReader& reader) {
  KernelResources kernel;
  KPT_ASSIGN_OR_RETURN(const std::size_t pairs, reader.read_map());
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    KPT_ASSIGN_OR_RETURN(const std::string_view key, reader.read_string());
    const auto* field = std::ranges::find(kFields, key, &Field::key);
    if (field != std::end(kFields)) {
      KPT_ASSIGN_OR_RETURN(kernel.*(field->member), reader.read_unsigned());
    } else if (key == ".name") {
      KPT_ASSIGN_OR_RETURN(const std::string_view name, reader.read_string());
      kernel.name = printable(name, 256);
    } else {
      KPT_RETURN_IF_ERROR(reader.skip());
    }
  }
  if (kernel.name.empty()) return broken("a kernel has no name");
  return kernel;
}

// "amdgcn-amd-amdhsa--gfx942:sramecc+" → "gfx942".
Result<std::string> read_target(MsgpackReader& reader) {
  KPT_ASSIGN_OR_RETURN(const std::string_view text, reader.read_string());
  const std::size_t at = text.rfind("gfx");
  if (at == std::string_view::npos) return broken("its target names no GPU");
  const std::string_view target = text.substr(at);
  return printable(target.substr(0, target.find(':')), 64);
}

}  // namespace

Result<CodeObject> read_code_object(std::span<const std::byte> bytes) {
  KPT_ASSIGN_OR_RETURN(const auto metadata, read_metadata(bytes));
  CodeObject object;
  MsgpackReader reader(metadata);
  KPT_ASSIGN_OR_RETURN(const std::size_t pairs, reader.read_map());
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    KPT_ASSIGN_OR_RETURN(const std::string_view key, reader.read_string());
    if (key == "amdhsa.target") {
      KPT_ASSIGN_OR_RETURN(object.gfx_target, read_target(reader));
    } else if (key == "amdhsa.kernels") {
      KPT_ASSIGN_OR_RETURN(const std::size_t kernels, reader.read_array());
      for (std::size_t index = 0; index < kernels; ++index) {
        KPT_ASSIGN_OR_RETURN(KernelResources kernel, read_kernel(reader));
        object.kernels.push_back(std::move(kernel));
      }
    } else {
      KPT_RETURN_IF_ERROR(reader.skip());
    }
  }
  if (object.gfx_target.empty()) return broken("it names no target");
  std::ranges::sort(object.kernels, {}, &KernelResources::name);
  return object;
}

namespace {

std::uint64_t round_up(std::uint64_t number, std::uint64_t to) { return (number + to - 1) / to * to; }

// GCN and CDNA hand scalar registers out in pieces of 16 and add 16 for the trap handler, which the driver for compute
// always has (LLVM's occupancy-levels.ll, its rows for amdhsa).
std::uint64_t waves_by_scalars(std::uint64_t scalars, std::uint64_t total) {
  constexpr std::uint64_t kPiece = 16;
  return total / (round_up(std::min(scalars, total), kPiece) + kPiece);
}

}  // namespace

int waves_per_simd(const AmdArchitecture& architecture, const KernelResources& kernel, int threads) {
  const AmdRegisterFile& file = architecture.registers;
  if (threads <= 0 || kernel.lds_bytes > architecture.lds_bytes) return 0;
  const auto simds = static_cast<std::uint64_t>(file.simds);
  const auto granule = static_cast<std::uint64_t>(file.granule);
  const auto total = static_cast<std::uint64_t>(file.registers);
  const std::uint64_t registers = std::max(kernel.vector_registers, kernel.accumulation_registers);
  if (registers > static_cast<std::uint64_t>(file.most)) return 0;
  // Without one file for both kinds, each kind has its own of the same size.
  std::uint64_t waves = static_cast<std::uint64_t>(file.max_waves);
  waves = std::min(waves, total / round_up(std::max<std::uint64_t>(registers, 1), granule));
  if (file.scalars > 0) {
    waves = std::min(waves, waves_by_scalars(kernel.scalar_registers, static_cast<std::uint64_t>(file.scalars)));
  }
  // A workgroup is on one compute unit or not there; with several waves, a unit holds 16 workgroups at most.
  const std::uint64_t group_waves =
      (static_cast<std::uint64_t>(threads) + static_cast<std::uint64_t>(architecture.wavefront_size) - 1) /
      static_cast<std::uint64_t>(architecture.wavefront_size);
  std::uint64_t groups = waves * simds / group_waves;
  if (group_waves > 1) groups = std::min<std::uint64_t>(groups, 16);
  if (kernel.lds_bytes > 0) {
    groups = std::min(groups, architecture.lds_bytes / round_up(kernel.lds_bytes, architecture.lds_granule));
  }
  return static_cast<int>((groups * group_waves + simds - 1) / simds);
}

Status check_resources(const AmdArchitecture& architecture, const KernelResources& kernel) {
  std::string problem;
  const auto most = static_cast<std::uint64_t>(architecture.registers.most);
  if (kernel.vector_spills > 0 || kernel.scalar_spills > 0) {
    problem = fmt::format("it spills {} vector and {} scalar registers", kernel.vector_spills, kernel.scalar_spills);
  } else if (kernel.vector_registers > most) {
    problem = fmt::format("it needs {} vector registers of {}", kernel.vector_registers, most);
  } else if (kernel.lds_bytes > architecture.lds_bytes) {
    problem = fmt::format("it needs {} bytes of LDS of {}", kernel.lds_bytes, architecture.lds_bytes);
  } else if (kernel.wavefront_size != static_cast<std::uint64_t>(architecture.wavefront_size)) {
    problem = fmt::format("its wavefronts have {} lanes", kernel.wavefront_size);
  } else if (waves_per_simd(architecture, kernel,
                            static_cast<int>(std::min<std::uint64_t>(kernel.max_threads, 1024))) == 0) {
    problem = fmt::format("a workgroup of {} threads does not fit", kernel.max_threads);
  }
  if (problem.empty()) return {};
  return {StatusCode::kKernelCompilation,
          fmt::format("kernel {} for {}: {}", kernel.name, architecture.gfx_target, problem), Vendor::kAmd};
}

}  // namespace kpt
