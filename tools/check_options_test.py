#!/usr/bin/env python3
"""Shows that check_options.py finds what it must find: each case breaks one thing in a small tree."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent / "check_options.py"
TABLE = """#define KPT_OPTIONS(X)                                     \\
  X(kLogLevel, log::Level, "log.level", "warn", x, "KPT_LOG", "a") \\
  X(kStrict, bool, "strict", "false", x, "KPT_STRICT", "b")        \\
  X(kCacheDir, std::string, "cache.dir", "", x, "KPT_CACHE_DIR",   \\
    "c")
"""
THROUGH = """std::string cache_folder(const Config& config,
                         const Environment& environment) {
  return config.get(options::kCacheDir);
}
"""
READER = """void f(const Config& config) {
  if (config.get(kpt::options::kStrict)) use(cache_folder(config, environment));
  use(config.get( options::kLogLevel ));
}
"""


class CheckOptions(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def check(self, table=TABLE, through=THROUGH, reader=READER, test=""):
        for path, text in {"src/config/options.h": table, "src/config/automatic.cpp": through,
                           "src/doctor/doctor.cpp": reader, "src/doctor/doctor_test.cpp": test}.items():
            file = self.root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        outcome = subprocess.run([sys.executable, str(SCRIPT), "--root", str(self.root)], capture_output=True,
                                 text=True, check=False)
        self.assertEqual(outcome.stderr, "")
        return outcome.returncode, outcome.stdout

    def expect_unread(self, handle, **changes):
        code, output = self.check(**changes)
        self.assertEqual(code, 1, output)
        self.assertIn(f"nobody reads {handle};", output)
        self.assertIn("3 declared, 2 read", output)

    def test_a_sound_tree_passes(self):
        code, output = self.check()
        self.assertEqual(code, 0, output)
        self.assertIn("3 declared, 3 read", output)

    def test_an_option_that_nobody_reads(self):
        self.expect_unread("kStrict", reader=READER.replace("config.get(kpt::options::kStrict)", "true"))

    def test_tests_and_comments_do_not_read(self):
        reader = READER.replace("config.get(kpt::options::kStrict)", "true")
        self.expect_unread("kStrict", reader=reader, test="bool b = config.get(options::kStrict);\n")
        self.expect_unread("kStrict", reader=reader + "// config.get(options::kStrict)\n")

    def test_another_option_with_a_longer_name_does_not_count(self):
        self.expect_unread("kStrict", reader=READER.replace("kStrict", "kStrictness"))

    def test_what_reads_it_in_the_configuration_must_be_called(self):
        self.expect_unread("kCacheDir", reader=READER.replace("cache_folder(config, environment)", "1"))

    def test_a_table_of_another_form(self):
        code, output = self.check(table="constexpr Option kOptions[] = {};\n")
        self.assertEqual(code, 1)
        self.assertIn("no options found", output)


if __name__ == "__main__":
    unittest.main()
