// The page of kpt bench --html in a real browser: no errors, marks inside their axes, no labels over each other.
#include <filesystem>
#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "benchmark/page.h"
#include "hardware_fixture.h"
#include "program.h"
#include "support/tree_paths.h"

namespace kpt::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// The first browser of the family whose --dump-dom is used here; nothing when none is installed.
std::optional<std::string> find_browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}) {
    ChildCommand command;
    command.arguments = {name, "--version"};
    command.time_limit = std::chrono::seconds(30);
    const auto outcome = run_child(command);
    if (outcome.ok() && outcome->succeeded()) return name;
  }
  return std::nullopt;
}

// Looks at every drawing and leaves what it finds as JSON in an element that the dump shows.
constexpr const char* kProbe = R"js(<script>
window.addEventListener("load", () => {
  const found = {drawings: 0, marks: 0, labels: 0, outside: [], overlapping: [], cut: [], wide: false, background: ""};
  const box = element => element.getBoundingClientRect();
  for (const svg of document.querySelectorAll("svg")) {
    found.drawings += 1;
    const plot = box(svg.querySelector(".plot"));
    const whole = box(svg);
    const slack = 6;  // a dot at the edge of the plot reaches over it by its radius
    for (const mark of svg.querySelectorAll(".mark")) {
      found.marks += 1;
      const b = box(mark);
      if (b.left < plot.left - slack || b.right > plot.right + slack || b.top < plot.top - slack ||
          b.bottom > plot.bottom + slack) found.outside.push(mark.outerHTML.slice(0, 120));
    }
    const texts = [...svg.querySelectorAll("text")].filter(t => t.textContent.trim() !== "");
    for (let i = 0; i < texts.length; ++i) {
      found.labels += 1;
      const a = box(texts[i]);
      if (a.left < whole.left - 1 || a.right > whole.right + 1 || a.bottom > whole.bottom + 1 || a.top < whole.top - 1)
        found.cut.push(texts[i].textContent);
      for (let k = i + 1; k < texts.length; ++k) {
        const b = box(texts[k]);
        if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)
          found.overlapping.push(texts[i].textContent + " | " + texts[k].textContent);
      }
    }
  }
  found.wide = document.documentElement.scrollWidth > window.innerWidth + 1;
  found.background = getComputedStyle(document.body).backgroundColor;
  const result = document.createElement("pre");
  result.textContent = "FOUND" + JSON.stringify(found) + "END";
  document.body.append(result);
});
</script>)js";

struct Look {
  nlohmann::ordered_json found;
  std::string console;
};

Look look_at(const std::string& browser, std::string page, int width, bool dark) {
  const TemporaryFolder folder;
  // The page forbids scripts; for the look at it they are allowed.
  const std::string rule = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
  const auto place = page.find(rule);
  EXPECT_NE(place, std::string::npos);
  page.replace(place, rule.size(),
               "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'unsafe-inline'");
  page.insert(page.find("</body>"), kProbe);
  const std::string file = (folder.path() / "page.html").string();
  std::ofstream(file) << page;
  const ProgramRun run =
      run_program({browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--no-first-run", "--user-data-dir=" + (folder.path() / "profile").string(),
                   "--enable-logging=stderr", "--v=0", "--window-size=" + std::to_string(width) + ",1200",
                   std::string("--blink-settings=preferredColorScheme=") + (dark ? "0" : "1"),
                   "--virtual-time-budget=3000", "--dump-dom", "file://" + file});
  Look look;
  const auto begin = run.out.find("FOUND{");
  const auto end = run.out.find("}END", begin);
  if (begin == std::string::npos || end == std::string::npos) {
    ADD_FAILURE() << "the browser gave no answer: " << run.err.substr(0, 2000);
    return look;
  }
  std::string json = run.out.substr(begin + 5, end + 1 - begin - 5);
  for (const auto& [entity, letter] : {std::pair{"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"}}) {
    for (auto at = json.find(entity); at != std::string::npos; at = json.find(entity)) {
      json.replace(at, std::string(entity).size(), letter);
    }
  }
  look.found = nlohmann::ordered_json::parse(json, nullptr, false);
  look.console = run.err;
  return look;
}

void expect_good(const std::string& browser, const std::string& page, std::size_t least_drawings) {
  std::vector<std::string> backgrounds;
  for (const auto& [width, dark] : {std::pair{1280, false}, {1280, true}, {420, false}}) {
    SCOPED_TRACE(width);
    const Look look = look_at(browser, page, width, dark);
    ASSERT_TRUE(look.found.is_object());
    EXPECT_GE(look.found.at("drawings").get<std::size_t>(), least_drawings);
    EXPECT_GT(look.found.at("marks").get<std::size_t>(), least_drawings);
    EXPECT_GT(look.found.at("labels").get<std::size_t>(), 3 * least_drawings);
    for (const char* fault : {"outside", "overlapping", "cut"}) {
      EXPECT_TRUE(look.found.at(fault).empty()) << fault << look.found.at(fault).dump(1);
    }
    EXPECT_FALSE(look.found.at("wide").get<bool>()) << "the page is wider than the window";
    EXPECT_THAT(look.console, Not(HasSubstr("CONSOLE")));
    backgrounds.push_back(look.found.at("background"));
  }
  ASSERT_EQ(backgrounds.size(), 3U);
  EXPECT_NE(backgrounds[0], backgrounds[1]) << "dark looks like light";
}

// Every section at once, with fresh figures and unfriendly names.
std::string make_full_page(std::mt19937_64& random) {
  BenchmarkReport report;
  report.context = {"2026-11-15T12:00:00Z",
                    "host",
                    "a model with <odd> & \"long\" name.pt2",
                    std::string(64, 'a'),
                    "cpu",
                    "Neoverse-V1",
                    2,
                    2,
                    "0.5.0",
                    "c0ffee",
                    "Release",
                    "2.15.0"};
  report.batch_symbol = "s0";
  for (const std::int64_t length : {32, 512}) {
    for (const std::int64_t batch : {1, 2, 3, 16}) {
      PointReport point;
      point.sizes = {{"s0", batch}, {"s1", length}};
      point.label = describe_sizes(point.sizes, "s0");
      point.items = batch;
      std::lognormal_distribution<double> times(std::log(static_cast<double>(batch * length) / 10), 0.1);
      const std::size_t count = 10 + random() % 500;
      for (std::size_t index = 0; index < count; ++index) {
        point.measurement.samples_ms.push_back(times(random) * (random() % 50 == 0 ? 4 : 1));
      }
      point.measurement.summary = summarize(point.measurement.samples_ms);
      point.peak_bytes = random() % (std::uint64_t{1} << 33U);
      report.points.push_back(std::move(point));
    }
  }
  BenchmarkReport before = report;
  for (PointReport& point : before.points) {
    for (double& sample : point.measurement.samples_ms) sample *= 1.7;
    point.measurement.summary = summarize(point.measurement.samples_ms);
  }
  for (const char* kind : {"cold cache", "warm cache"}) {
    StartupReport startup;
    startup.kind = kind;
    for (int index = 0; index < 7; ++index) startup.samples_ms.push_back(200 + static_cast<double>(random() % 100));
    startup.summary = summarize(startup.samples_ms);
    startup.load_ms = 150;
    startup.run_ms = 20;
    report.startups.push_back(std::move(startup));
  }
  std::vector<std::string> missing;
  const auto compared = compare_with_baseline(make_entries(before), report, 0.05, {}, missing).value();
  const std::vector<OutputError> errors = {
      {"last_hidden_state", "rms error", 3e-7, 4e-7, 8e-7, true},
      {"past_key_values.11.value_of_a_long_name", "rms error", 2e-3, 1e-6, 2e-6, false},
      {"logits", "1 − cosine", 2e-4, std::nullopt, 1e-2, true}};
  return make_page({&report, compared, 0.05, errors});
}

TEST(BenchPage, AllSectionsLookRightInABrowser) {
  const auto browser = find_browser();
  if (!browser) GTEST_SKIP() << "no chromium here: apt-get install chromium";
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  expect_good(*browser, make_full_page(random), 13);
}

#if defined(KPT_HAS_TORCH)
TEST(BenchPage, WhatTheCommandWritesLooksRightInABrowser) {
  const auto browser = find_browser();
  if (!browser) GTEST_SKIP() << "no chromium here: apt-get install chromium";
  const TemporaryFolder folder;
  const std::string html = (folder.path() / "page.html").string();
  const std::string base = (folder.path() / "base.json").string();
  const std::string model = source_dir() + "/tests/golden/pt2/2.15.0/sizes.pt2";
  const auto symbols = run_kpt({"inspect", model, "--json"}).json().at("symbols");
  const std::string sweep = symbols.at(0).at("name").get<std::string>() + "=3,4,6";
  const std::vector<std::string> line = {"bench", model, "--sweep", sweep, "--duration", "0.1", "--warmup", "0"};
  std::vector<std::string> save = line;
  save.insert(save.end(), {"--save-baseline", base});
  ASSERT_EQ(run_kpt(save).exit_code, 0);
  std::vector<std::string> write = line;
  write.insert(write.end(), {"--compare", base, "--html", html, "--startup", "--startup-runs", "2"});
  const ProgramRun run = run_kpt(write);
  EXPECT_THAT(run.out, HasSubstr("wrote " + html)) << run.err;
  expect_good(*browser, read_text_file(html, 1U << 24U).value(), 7);
}
#endif

}  // namespace
}  // namespace kpt::testing
