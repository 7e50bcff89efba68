#include "engines/aten/shared_object.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <elf.h>

#include <random>

#include "base/files.h"
#include "engines/aten/probe_child.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using aten_test::TemporaryFolder;
using testing::HasSubstr;

std::string real_library() {
  return read_text_file(build_dir() + "/fakes/aten/fake_libtorch_silent.so", 16 << 20).value();
}

Status check(const std::string& content) {
  const TemporaryFolder folder;
  folder.write("library.so", content);
  return check_shared_object(folder.path() / "library.so");
}

TEST(SharedObject, WholeLibraryIsAccepted) { EXPECT_TRUE(check(real_library()).ok()); }

TEST(SharedObject, MissingFileIsNotFound) {
  EXPECT_EQ(check_shared_object("/nonexistent/library.so").code(), StatusCode::kNotFound);
}

TEST(SharedObject, TextIsNoLibrary) {
  EXPECT_THAT(check(std::string(1000, 'x')).message(), HasSubstr("is not a shared library"));
}

TEST(SharedObject, LibraryOfAnotherMachineIsRefused) {
  std::string content = real_library();
  content[18] = static_cast<char>(EM_S390);
  content[19] = 0;
  EXPECT_THAT(check(content).message(), HasSubstr("another kind of machine"));
}

TEST(SharedObject, PartsBeyondTheEndAreRefusedWhateverTheirOffsets) {
  std::string content = real_library();
  Elf64_Ehdr header{};
  std::memcpy(&header, content.data(), sizeof(header));
  Elf64_Phdr part{};
  std::memcpy(&part, content.data() + header.e_phoff, sizeof(part));
  part.p_type = PT_LOAD;
  // Offset and size whose sum wraps around to a small number.
  part.p_offset = ~Elf64_Off{0} - 10;
  part.p_filesz = 100;
  std::memcpy(content.data() + header.e_phoff, &part, sizeof(part));
  EXPECT_THAT(check(content).message(), HasSubstr("cut short"));
}

TEST(SharedObject, RandomDamageNeverCrashesTheCheck) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 engine(seed);
  const std::string whole = real_library();
  for (int round = 0; round < 200; ++round) {
    std::string content = whole.substr(0, engine() % whole.size());
    for (int i = 0; i < 8 && !content.empty(); ++i) {
      content[engine() % std::min<std::size_t>(content.size(), 512)] = static_cast<char>(engine());
    }
    static_cast<void>(check(content));
  }
}

}  // namespace
}  // namespace kpt
