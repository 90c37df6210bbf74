// The objective of every budget.

const LINES = [
  ["inverse", "lost", "dashed", 2],
  ["random", "dropped", "solid", 2.5],
  ["objective", "kept", "solid", 3],
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
  byId("curve-legend").hidden = !hasCurve;
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
  for (const [[axis], [grid], low, high] of [
    [plot.xaxis, plot.xgrid, budgets[0], budgets.at(-1)],
    [plot.yaxis, plot.ygrid, floor, ceiling],
  ]) {
    const ticks = roundNumbers(low, high);
    if (ticks.length < 2) continue; // Bokeh finds some
    axis.ticker = grid.ticker = new Bokeh.FixedTicker({ ticks });
    axis.formatter = new Bokeh.BasicTickFormatter();
  }
  for (const [column, colour, dash, width] of LINES) {
    const look = { source, line_width: width, line_dash: dash };
    curve.lines.push([plot.line({ field: "k" }, { field: column }, look), colour]);
  }
  curve.marker = plot.scatter({ field: "x" }, { field: "y" }, { source: curve.here, size: 13, line_width: 3 });
  restyleCurve();
  moveOnCurve();
  return Bokeh.Plotting.show(plot, byId("curve"));
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
