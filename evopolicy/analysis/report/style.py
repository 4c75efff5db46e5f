"""The look of a report: system fonts, one accent, figures of equal width; light and dark, wide and
narrow, on paper."""

from __future__ import annotations

_LIGHT = """
--ground:#fcfcfa; --panel:#f3f3f0; --ink:#1d1f21; --soft:#5a5f66; --rule:#d8d9d5; --accent:#1a5c9e; --tint:#e4edf6;
--add:#0f5a2c; --add-ground:#e4f4e8; --cut:#8f1d15; --cut-ground:#fbe8e5; --warn:#7a4a00; --warn-ground:#fbf0da;
"""
_DARK = """
--ground:#15171a; --panel:#1e2125; --ink:#e5e7e9; --soft:#a2a8b0; --rule:#363a40; --accent:#86b7f0; --tint:#1f2f42;
--add:#a3dfb4; --add-ground:#17301f; --cut:#f6b8b0; --cut-ground:#3b1f1c; --warn:#edc985; --warn-ground:#352a14;
"""

STYLE = (
    """
:root {"""
    + _LIGHT
    + """color-scheme:light dark; }
@media (prefers-color-scheme:dark) { :root {"""
    + _DARK
    + """} }
*,*::before,*::after { box-sizing:border-box; }
html { scroll-padding-top:1rem; -webkit-text-size-adjust:100%; }
body { margin:0; background:var(--ground); color:var(--ink); font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,
  "Helvetica Neue",Arial,"Noto Sans","DejaVu Sans",sans-serif; font-variant-numeric:tabular-nums; }
a { color:var(--accent); text-underline-offset:.15em; text-decoration-thickness:1px; }
a:hover { text-decoration-thickness:2px; }
:focus-visible { outline:3px solid var(--accent); outline-offset:2px; border-radius:2px; }
.skip { position:absolute; left:1rem; top:-4rem; padding:.5rem 1rem; background:var(--ground); z-index:9; }
.skip:focus { top:.5rem; }
.page { display:grid; grid-template-columns:15rem minmax(0,1fr); max-width:100rem; margin:0 auto; }
.toc { position:sticky; top:0; align-self:start; max-height:100vh; overflow-y:auto; padding:2rem 1rem 2rem 1.5rem;
  font-size:.875rem; }
.toc ol { list-style:none; margin:0; padding:0; }
.toc ol ol { margin:.1rem 0 .4rem; border-left:1px solid var(--rule); }
.toc a { display:flex; gap:.5rem; justify-content:space-between; padding:.2rem .5rem; color:var(--ink);
  text-decoration:none; border-radius:3px; }
.toc a:hover { background:var(--panel); }
.toc .soft { white-space:nowrap; }
main { padding:2rem 1.5rem 4rem; min-width:0; }
section { margin:0 0 3rem; }
h1,h2,h3,h4,h5 { line-height:1.25; margin:0 0 .6rem; text-wrap:balance; overflow-wrap:anywhere; }
h1 { font-size:1.75rem; font-weight:650; letter-spacing:-.01em; }
h2 { font-size:1.25rem; font-weight:650; padding-top:.8rem; border-top:1px solid var(--rule); }
h3 { font-size:1.0625rem; font-weight:650; }
h4 { font-size:.9375rem; font-weight:600; margin-top:1.2rem; }
p { margin:0 0 .8rem; max-width:46rem; overflow-wrap:anywhere; }
.soft,.cut,figcaption,caption,dt,.notes { color:var(--soft); }
.cut { font-size:.8125rem; font-style:italic; margin:.3rem 0 .8rem; }
.lead { font-size:1rem; color:var(--soft); }
.tiles { display:grid; grid-template-columns:repeat(auto-fit,minmax(10.5rem,1fr)); gap:1px; margin:1.2rem 0 1.6rem;
  background:var(--rule); border:1px solid var(--rule); border-radius:6px; overflow:hidden; }
.tiles > div { background:var(--ground); padding:.8rem 1rem; }
.tiles dt { font-size:.8125rem; }
.tiles dd { margin:0; font-size:1.375rem; font-weight:600; overflow-wrap:anywhere; }
.tiles small { display:block; font-size:.8125rem; font-weight:400; color:var(--soft); }
.facts { display:grid; grid-template-columns:repeat(auto-fill,minmax(min(100%,19rem),1fr)); gap:.35rem 2rem;
  margin:0 0 1rem; }
.facts > div { display:grid; grid-template-columns:8.5rem minmax(0,1fr); gap:.6rem; align-items:baseline; }
.facts dt { font-size:.875rem; overflow-wrap:anywhere; }
.facts dd { margin:0; overflow-wrap:anywhere; }
.mark { display:inline-block; padding:.05rem .5rem; border-radius:3px; font-size:.8125rem; font-weight:600;
  background:var(--panel); color:var(--ink); white-space:nowrap; letter-spacing:0; }
.mark.good { background:var(--add-ground); color:var(--add); }
.mark.bad { background:var(--cut-ground); color:var(--cut); }
.mark.warn { background:var(--warn-ground); color:var(--warn); }
.mark.chosen { background:var(--tint); color:var(--accent); }
.scroll { overflow-x:auto; max-width:100%; margin:0 0 1rem; }
table { border-collapse:collapse; font-size:.9375rem; }
caption { text-align:left; font-size:.875rem; padding:0 0 .4rem; position:sticky; left:0; }
th,td { padding:.3rem .9rem .3rem 0; text-align:right; vertical-align:baseline; white-space:nowrap; }
th { font-weight:500; }
thead th { color:var(--soft); font-size:.8125rem; border-bottom:1px solid var(--ink); vertical-align:bottom; }
tbody tr + tr > * { border-top:1px solid var(--rule); }
tbody tr:hover > * { background:var(--panel); }
tr.marked > * { background:var(--tint); }
th:first-child,td:first-child { padding-left:.4rem; }
.left { text-align:left; }
td.left { white-space:normal; min-width:5.5rem; max-width:28rem; overflow-wrap:break-word; }
td strong { color:var(--add); }
td small { display:block; color:var(--soft); font-size:.8125rem; }
pre,code { font-family:ui-monospace,"SF Mono",Menlo,Consolas,"Liberation Mono","DejaVu Sans Mono",monospace;
  font-size:.8125rem; line-height:1.5; font-variant-ligatures:none; }
code { overflow-wrap:anywhere; }
pre { margin:0 0 .6rem; padding:.6rem .8rem; background:var(--panel); border-radius:4px; overflow:auto;
  max-height:38rem; white-space:pre-wrap; overflow-wrap:anywhere; unicode-bidi:isolate; tab-size:4; }
pre.diff { white-space:pre; overflow-wrap:normal; padding:.6rem 0; }
pre.diff > span { display:block; width:max-content; min-width:100%; padding:0 .8rem; min-height:1.2em; }
.plus { background:var(--add-ground); color:var(--add); }
.minus { background:var(--cut-ground); color:var(--cut); }
.file { color:var(--ink); font-weight:600; }
.hunk { color:var(--soft); }
details { margin:0 0 .6rem; }
summary { cursor:pointer; padding:.15rem 0; overflow-wrap:anywhere; }
summary:hover { color:var(--accent); }
details > summary h4 { display:inline; }
.submission { border:1px solid var(--rule); border-radius:6px; padding:1rem 1.2rem .8rem; margin:0 0 1.4rem; }
.submission > h3,.submission > h4 { display:flex; flex-wrap:wrap; gap:.4rem .7rem; align-items:baseline; }
.submission > h4 { margin-top:0; }
.outline { padding:.4rem 1rem; margin:0 0 .5rem; }
.outline > details { margin:0; }
.outline > details > summary h4 { font-weight:500; margin:0; }
.outline > details > summary .score { font-size:1rem; font-weight:600; float:right; }
.outline > details > div { padding-top:.8rem; scroll-margin-top:6rem; }
.submission .score { font-size:1.375rem; margin-left:auto; }
.submission .score small { font-size:.8125rem; font-weight:400; color:var(--soft); }
.beside { display:grid; grid-template-columns:minmax(0,1fr); gap:0 1.8rem; }
.steps { list-style:none; margin:0; padding:0 .4rem 0 0; max-height:44rem; overflow-y:auto; }
.steps > li { border-left:2px solid var(--rule); padding:0 0 .5rem .8rem; }
.steps > li.agent { border-left-color:var(--accent); }
.who { font-size:.8125rem; color:var(--soft); margin:0; }
.said { white-space:pre-wrap; overflow-wrap:anywhere; font-size:.9375rem; margin:0 0 .4rem; unicode-bidi:isolate; }
.call > summary { font-size:.875rem; }
.replays { display:grid; grid-template-columns:repeat(auto-fill,minmax(min(100%,15rem),1fr)); gap:1rem; }
figure { margin:0 0 .8rem; min-width:0; }
figcaption { font-size:.875rem; margin:0 0 .3rem; overflow-wrap:anywhere; }
img { max-width:100%; height:auto; border-radius:4px; background:#fff; }
.replays figure:has(details[open]) { grid-column:1/-1; }
.replays img { border:1px solid var(--rule); display:block; }
.figures { display:grid; grid-template-columns:repeat(auto-fit,minmax(min(100%,34rem),1fr)); gap:1.5rem;
  align-items:start; }
.drawn img { display:block; min-width:34rem; max-width:56rem; width:100%; }
.bar { width:5rem; height:.5rem; margin-left:.6rem; vertical-align:middle; }
.track { fill:var(--rule); } .filled { fill:var(--accent); }
.notes { font-size:.875rem; padding-left:1.1rem; max-width:46rem; overflow-wrap:anywhere; }
footer { color:var(--soft); font-size:.8125rem; }
@media (min-width:82rem) { .beside { grid-template-columns:minmax(0,1fr) minmax(0,1fr); } .beside.one {
  grid-template-columns:minmax(0,1fr); } }
@media (max-width:64rem) {
  html { scroll-padding-top:3.4rem; }
  .page { display:block; }
  .toc { position:sticky; top:0; z-index:5; max-height:none; overflow-x:auto; overflow-y:hidden; padding:.3rem .6rem;
    background:var(--ground); border-bottom:1px solid var(--rule); }
  .toc ol,.toc ol ol { display:flex; border:0; margin:0; gap:0; }
  .toc li { display:flex; flex:none; }
  .toc a { padding:.45rem .55rem; white-space:nowrap; }
  .toc .soft { display:none; }
  main { padding:1.2rem 1rem 3rem; }
  h1 { font-size:1.4rem; }
}
@media (max-width:30rem) {
  .facts > div { grid-template-columns:7rem minmax(0,1fr); }
  .submission { padding:.8rem .8rem .4rem; }
  .tiles { grid-template-columns:repeat(2,minmax(0,1fr)); }
  .tiles > div:last-child:nth-child(odd) { grid-column:1/-1; }
}
@media (prefers-reduced-motion:no-preference) { html { scroll-behavior:smooth; } }
@media print { .toc,.skip { display:none; } .page { display:block; } pre,.steps { max-height:none; } }
"""
)
"""CSS of the page. Every text on its ground has a contrast of 4.5 or more, in the light and in the
dark."""
