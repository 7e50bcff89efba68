// The style of the page that page.cpp makes. Colours are named once for light and once for dark; series colours keep
// their order in both and are told apart also by people who see fewer colours.
#pragma once

namespace kpt {

inline constexpr const char* kPageStyle = R"css(
:root {
  color-scheme: light dark;
  --page: #fbfbfa; --surface: #ffffff; --ink: #1c1d20; --quiet: #62646b; --faint: #e4e4e1; --edge: #d9d9d5;
  --s0: #2a6fdb; --s1: #d9730d; --s2: #0d9276; --s3: #9a4fc4; --s4: #b8336a; --s5: #6b7280;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #16171a; --surface: #1e1f23; --ink: #ececea; --quiet: #a3a5ad; --faint: #303238; --edge: #383a41;
    --s0: #6ea3f5; --s1: #f0a04b; --s2: #3fc4a4; --s3: #c58be8; --s4: #ec6f9f; --s5: #9ca3af;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 26px; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 0; }
header p, section > p { color: var(--quiet); margin: 2px 0 14px; max-width: 75ch; }
section { margin-top: 36px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin-top: 18px; }
.tile { background: var(--surface); border: 1px solid var(--edge); border-radius: 8px; padding: 12px 14px;
  display: flex; flex-direction: column; justify-content: space-between; }
.tile .name { color: var(--quiet); font-size: 13px; }
.tile .value { font-size: 24px; font-weight: 600; white-space: nowrap; }
.tile small { font-size: 14px; font-weight: 400; color: var(--quiet); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); gap: 16px; }
figure { margin: 0; background: var(--surface); border: 1px solid var(--edge); border-radius: 8px; padding: 14px; }
figcaption { font-weight: 600; margin-bottom: 8px; }
svg { display: block; width: 100%; height: auto; max-width: 680px; }
svg text { font: 12px system-ui, sans-serif; fill: var(--quiet); }
.plot { fill: none; stroke: none; }
.grid { stroke: var(--faint); stroke-width: 1; }
.tick { stroke: var(--edge); stroke-width: 1; }
.rule { stroke: var(--ink); stroke-width: 1.2; }
.strong { stroke-width: 2; }
.dashed { stroke-dasharray: 5 3; }
.dotted { stroke-dasharray: 1.5 3; }
.curve { fill: none; stroke-width: 2; }
.whisker { stroke-width: 2; }
.ink { stroke: var(--ink); stroke-width: 1.5; }
.hollow { fill: var(--surface); stroke-width: 2; }
.fill.s0 { fill: var(--s0); } .fill.s1 { fill: var(--s1); } .fill.s2 { fill: var(--s2); }
.fill.s3 { fill: var(--s3); } .fill.s4 { fill: var(--s4); } .fill.s5 { fill: var(--s5); }
.curve.s0, .whisker.s0, .hollow.s0 { stroke: var(--s0); } .curve.s1, .whisker.s1, .hollow.s1 { stroke: var(--s1); }
.curve.s2, .whisker.s2, .hollow.s2 { stroke: var(--s2); } .curve.s3, .whisker.s3 { stroke: var(--s3); }
.curve.s4, .whisker.s4 { stroke: var(--s4); } .curve.s5, .whisker.s5 { stroke: var(--s5); }
.scroll { overflow-x: auto; background: var(--surface); border: 1px solid var(--edge); border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 14px; }
th, td { padding: 7px 12px; text-align: right; white-space: nowrap; border-top: 1px solid var(--faint); }
tr:first-child > * { border-top: 0; }
th { color: var(--quiet); font-weight: 600; }
th:first-child, td:first-child, .facts td { text-align: left; }
.facts td:first-child { color: var(--quiet); width: 1%; }
.facts td { white-space: normal; overflow-wrap: anywhere; }
)css";

}  // namespace kpt
