// The objective of every budget, and the classes at the chosen one.

const LINES = [
  ["objective", "these picks", "kept", "solid", 3],
  ["random", "random subsets, expected", "dropped", "solid", 2.5],
  ["inverse", "falling like 1/k", "lost", "dashed", 2],
];
const curve = { lines: [] }; // and plot, here, marker

// 1, 2 and 5 times powers of ten between two values, or the powers alone where those are many.
function roundNumbers(low, high) {
  const powers = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) powers.push(power);
  const steps = powers.length > 3 ? [1] : [1, 2, 5];
  return powers
    .flatMap((power) => steps.map((step) => step * 10 ** power))
    .filter((value) => value >= low && value <= high);
}

const hasCurve = report.curve.objective.some((value) => value > 0);

async function makeCurve() {
  if (!hasCurve) return fill(byId("curve"), hint("The rows are all alike: every mean lies at the centre."));
  const { objective, random, inverse } = report.curve;
  const positive = (values) => values.map((value) => (value > 0 ? value : NaN));
  const drawn = [...objective, ...random].filter((value) => value > 0);
  const [floor, ceiling] = [Math.min(...drawn) / 1.3, Math.max(...drawn) * 1.3];
  const data = {
    k: budgets,
    objective: positive(objective),
    random: positive(random),
    inverse: inverse.map((value) => (value >= floor && value <= ceiling ? value : NaN)),
  };
  const source = new Bokeh.ColumnDataSource({ data });
  curve.here = new Bokeh.ColumnDataSource({ data: { x: [], y: [] } });
  const plot = (curve.plot = Bokeh.Plotting.figure({
    sizing_mode: "stretch_both",
    toolbar_location: null,
    tools: "",
    x_axis_type: "log",
    y_axis_type: "log",
    x_axis_label: "rows kept",
    y_range: [floor, ceiling],
    min_border: 4,
  }));
  const ends = [
    [plot.xaxis, plot.xgrid, budgets[0], budgets[budgets.length - 1]],
    [plot.yaxis, plot.ygrid, floor, ceiling],
  ];
  for (const [axes, grids, low, high] of ends) {
    const ticks = roundNumbers(low, high);
    if (ticks.length < 2) continue; // Bokeh finds some
    const ticker = new Bokeh.FixedTicker({ ticks });
    for (const axis of axes) Object.assign(axis, { ticker, formatter: new Bokeh.BasicTickFormatter() });
    for (const grid of grids) grid.ticker = ticker;
  }
  for (const [column, , colour, dash, width] of [...LINES].reverse()) {
    const look = { source, line_width: width, line_dash: dash };
    curve.lines.push([plot.line({ field: "k" }, { field: column }, look), colour]);
  }
  curve.marker = plot.scatter({ field: "x" }, { field: "y" }, { source: curve.here, size: 13, line_width: 3 });
  restyleCurve();
  moveOnCurve();
  await Bokeh.Plotting.show(plot, byId("curve"));
  const keys = LINES.map(([, words, colour, dash]) => {
    const style = { borderTopColor: `var(--${colour})`, borderTopStyle: dash };
    return element("span", { class: "key" }, element("span", { class: "dash", style }), words);
  });
  return fill(byId("curve-legend"), ...keys);
}

function restyleCurve() {
  if (!hasCurve) return;
  styleAxes(curve.plot);
  curve.plot.outline_line_color = null;
  for (const [line, colour] of curve.lines) line.glyph.line_color = cssColour(colour);
  Object.assign(curve.marker.glyph, { fill_color: cssColour("surface"), line_color: cssColour("kept") });
}

function moveOnCurve() {
  if (!hasCurve) return;
  const value = report.curve.objective[state.budget];
  curve.here.data = value > 0 ? { x: [budget()], y: [value] } : { x: [], y: [] };
  const [expected, closer] = [report.curve.random[state.budget], timesCloser()];
  const words = closer ? `, ${number(closer)} times as far` : "";
  byId("curve-words").textContent =
    `At ${plural(budget(), "row", "rows")} the distance is ${number(value)};` +
    ` random subsets have ${number(expected)}${words}.`;
}

function drawBalance() {
  const quiet = (words) => element("span", { class: "quiet" }, words);
  const counts = classCounts(state.budget);
  const { names, sizes, edges, median } = report.classes;
  const total = sizes.reduce((sum, value) => sum + value, 0);
  if (!report.labelled) {
    const last = edges[edges.length - 1];
    const ends = [number(edges[0]), `median ${number(median[0])}`, `${number(last)} and more`];
    const kept = barLine("kept here", budget() / total, null, `${count(budget())} of ${count(total)}`, 1);
    fill(
      byId("balance"),
      element("h3", {}, "Distances to the centre ", quiet("(kept of all rows)")),
      histogram(0, true),
      element("div", { class: "ends" }, ...ends.map((words) => element("span", {}, words))),
      element("div", { class: "balance", style: { marginTop: "22px" } }, kept),
    );
    return;
  }
  const shown = largestClasses(12);
  const widest = Math.max(...shown.map((code) => Math.max(counts[code] / budget(), sizes[code] / total)));
  const lines = shown.map((code) =>
    barLine(names[code], counts[code] / budget(), sizes[code] / total, count(counts[code]), widest),
  );
  const without = counts.filter((value) => value === 0).length;
  const largest = names.length > shown.length ? `the ${shown.length} largest; ` : "";
  const none = `${plural(without, "class has", "classes have")} no row at this budget.`;
  fill(
    byId("balance"),
    element("h3", {}, "Classes at this budget ", quiet(`(${largest}line: share of all rows)`)),
    element("div", { class: "balance" }, ...lines),
    without && element("p", { class: "quiet", style: { marginTop: "10px" } }, none),
  );
}

function barLine(name, share, expected, value, widest) {
  const scale = (part) => `${(100 * part) / (widest * 1.04)}%`;
  const bar = element("span", { class: "fill", style: { width: scale(share) } });
  const line = expected !== null && element("span", { class: "want", style: { left: scale(expected) } });
  return [
    element("span", { class: "name", title: name }, name),
    element("span", { class: "track" }, bar, line),
    element("span", { class: "value" }, value),
  ];
}
