// The map: points on a canvas, coloured by what the reader asks for.

const MOST_NAMED = 40; // classes whose names stand on the map
const MOST_COUNTED = 300; // rows of a class that decide where
const FAR = 14; // pixels from a point at which it is no longer meant

// And plot, view, points, names and ring, once they are made.
const map = { colour: new Uint32Array(size), width: new Float32Array(size) };

function baseColour(at, theme) {
  if (state.mode === "class") return classColour(rows.code[at]);
  if (state.mode === "distance") {
    const [low, high] = rows.reach;
    return rampColour(rampOf("distance"), high > low ? (rows.distance[at] - low) / (high - low) : 0.5);
  }
  if (state.mode === "suspicion")
    return rows.suspicion[at] === null ? theme.dropped : rampColour(rampOf("suspicion"), rows.suspicion[at]);
  return isKept(at) ? theme.kept : isLost(at) ? theme.lost : theme.dropped;
}

function paint() {
  const colourOf = (name) => [name, channels(cssColour(name))];
  const theme = Object.fromEntries(["kept", "lost", "dropped"].map(colourOf));
  const [crowd, scale] = size > 6000 ? [0.34, 0.8] : [size > 1500 ? 0.45 : 0.6, 1];
  for (let at = 0; at < size; at++) {
    const kept = isKept(at);
    const lost = state.mode === "kept" && isLost(at);
    const doubt = state.mode === "suspicion" ? (rows.suspicion[at] ?? 0) : 0;
    let alpha = kept ? 0.95 : lost ? 0.75 : crowd + (0.9 - crowd) * doubt;
    if (state.focus >= 0 && rows.code[at] !== state.focus) alpha *= 0.12;
    map.colour[at] = packed(baseColour(at, theme), alpha);
    map.width[at] = scale * (kept ? 7.5 : lost ? 6 : 5 + doubt);
  }
  if (map.points) map.points.change.emit();
}

function ringAround() {
  const marked = [...new Set([state.pinned, state.hovered])].filter((at) => at >= 0);
  map.ring.data = { x: marked.map((at) => rows.x[at]), y: marked.map((at) => rows.y[at]) };
}

function styleAxes(plot) {
  const [ink, line] = [cssColour("quiet"), cssColour("grid")];
  plot.background_fill_color = cssColour("surface");
  plot.border_fill_color = cssColour("surface");
  plot.outline_line_color = cssColour("line");
  const font = "system-ui, sans-serif";
  for (const axis of [...plot.xaxis, ...plot.yaxis]) {
    Object.assign(axis, { axis_line_color: null, major_tick_line_color: null, minor_tick_line_color: null });
    Object.assign(axis, { major_label_text_color: ink, axis_label_text_color: ink });
    Object.assign(axis, { major_label_text_font: font, axis_label_text_font: font });
    Object.assign(axis, { major_label_text_font_size: "12px", axis_label_text_font_size: "13px" });
    axis.axis_label_text_font_style = "normal";
  }
  for (const grid of [...plot.xgrid, ...plot.ygrid]) grid.grid_line_color = line;
}

// One unit is as long upwards as sideways, whatever the shape of the window.
function fitWindow([left, right, bottom, top]) {
  const { width, height } = map.view.frame.bbox;
  const unit = Math.max((right - left) / width, (top - bottom) / height);
  center(map.plot.x_range, (left + right) / 2, (unit * width) / 2);
  center(map.plot.y_range, (bottom + top) / 2, (unit * height) / 2);
}

const halfOf = (range) => (range.end - range.start) / 2;
const center = (range, middle, half) => range.setv({ start: middle - half, end: middle + half });

function zoom(factor) {
  for (const range of [map.plot.x_range, map.plot.y_range])
    center(range, (range.start + range.end) / 2, halfOf(range) * factor);
}

function showRow(at) {
  const [x, y] = [map.plot.x_range, map.plot.y_range];
  if (rows.x[at] > x.start && rows.x[at] < x.end && rows.y[at] > y.start && rows.y[at] < y.end) return;
  center(x, rows.x[at], halfOf(x));
  center(y, rows.y[at], halfOf(y));
}

function nearest(sx, sy) {
  const { x_scale: toX, y_scale: toY } = map.view.frame;
  const [x0, y0] = [toX.compute(0), toY.compute(0)];
  const [stepX, stepY] = [toX.compute(1) - x0, toY.compute(1) - y0];
  let [best, least] = [-1, FAR * FAR];
  for (let at = size - 1; at >= 0; at--) {
    if (state.focus >= 0 && rows.code[at] !== state.focus) continue;
    const across = x0 + rows.x[at] * stepX - sx;
    const up = y0 + rows.y[at] * stepY - sy;
    const square = across * across + up * up;
    if (square < least) [best, least] = [at, square];
  }
  return best;
}

function showHover() {
  const card = byId("hover");
  card.hidden = state.hovered < 0 || state.hovered === state.pinned;
  if (card.hidden) return;
  fill(card, rowCard(state.hovered));
  const { x_scale: toX, y_scale: toY } = map.view.frame;
  const [x, y] = [toX.compute(rows.x[state.hovered]), toY.compute(rows.y[state.hovered])];
  const [wide, high] = [byId("plot").clientWidth, byId("plot").clientHeight];
  const left = x + 18 + card.offsetWidth < wide ? x + 18 : Math.max(x - 18 - card.offsetWidth, 0);
  const top = Math.max(Math.min(y - card.offsetHeight / 3, high - card.offsetHeight), 0);
  Object.assign(card.style, { left: `${left}px`, top: `${top}px` });
}

function drawLegend() {
  fill(byId("legend"), ...{ kept: keptLegend, class: classLegend }[state.mode]?.() ?? rampLegend());
}

function keptLegend() {
  const amounts = { kept: 0, lost: 0, dropped: 0 };
  for (let at = 0; at < size; at++) amounts[status(at)[0]]++;
  const key = (kind, words) =>
    element("span", { class: "key" }, dot(`var(--${kind})`), words, element("b", {}, count(amounts[kind])));
  const lost = amounts.lost && key("lost", "lost at this budget");
  return [key("kept", "kept"), lost, key("dropped", "dropped"), element("span", {}, "on the map")];
}

function classLegend() {
  const { names, sizes } = report.classes;
  const largest = Array.from(names.keys()).sort((a, b) => sizes[b] - sizes[a] || a - b);
  const order = largest.slice(0, 14).sort((a, b) => a - b);
  const buttons = order.map((code) =>
    button(
      [dot(cssRgb(classColour(code))), element("span", {}, classOf(code))],
      () => update({ focus: state.focus === code ? -1 : code }),
      { class: "key", title: classOf(code), "aria-pressed": String(state.focus === code) },
    ),
  );
  const others = names.length - order.length;
  return [...buttons, others && element("span", {}, `and ${plural(others, "other", "others")}`)];
}

function rampLegend() {
  const background = `linear-gradient(to right, ${rampOf(state.mode).join(", ")})`;
  const far = state.mode === "distance";
  const [low, high] = far ? rows.reach.map(number) : ["0 believed", "1 hard to believe"];
  const words = far ? "distance to the centre of the class; kept rows are larger" : "kept rows are larger";
  const ramp = element("span", { class: "ramp", style: { background } });
  const say = (text) => element("span", {}, text);
  return [say(low), ramp, say(high), say(words)];
}

function makeTools() {
  const buttons = [...byId("tools").querySelectorAll("[data-tool]")];
  const toolOf = (type) => map.plot.toolbar.tools.find((tool) => tool.type === type);
  function choose(wanted) {
    for (const made of buttons) {
      toolOf(made.dataset.tool).active = made.dataset.tool === wanted;
      made.setAttribute("aria-pressed", String(made.dataset.tool === wanted));
    }
  }
  for (const made of buttons) {
    const { tool } = made.dataset;
    made.addEventListener("click", () => choose(toolOf(tool).active ? null : tool));
  }
  byId("zoom-in").addEventListener("click", () => zoom(0.7));
  byId("zoom-out").addEventListener("click", () => zoom(1 / 0.7));
  byId("reset").addEventListener("click", () => fitWindow(rows.window));
  // A finger that drags across the map should scroll the page until a tool is chosen.
  choose(matchMedia("(pointer: coarse)").matches ? null : "PanTool");
}

function stepThrough(event) {
  const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (move) {
    const place = pickOrder.indexOf(state.hovered >= 0 ? state.hovered : state.pinned);
    const at = pickOrder[place < 0 ? 0 : Math.min(Math.max(place + move, 0), pickOrder.length - 1)];
    showRow(at);
    update({ hovered: at });
  } else if (event.key === "Enter" && state.hovered >= 0) update({ pinned: state.hovered });
  else if (event.key === "Escape") update({ hovered: -1, pinned: -1, selected: [] });
  else if (event.key === "+") zoom(0.7);
  else if (event.key === "-") zoom(1 / 0.7);
  else return;
  event.preventDefault();
}

// The name of each class where most of its believed rows lie, where classes are few.
function nameClasses(plot) {
  const { names } = report.classes;
  const reach = ((rows.window[1] - rows.window[0]) / 25) ** 2;
  const spots = { x: [], y: [], name: [] };
  for (const code of report.labelled && names.length <= MOST_NAMED ? names.keys() : []) {
    const own = Array.from(rows.row.keys()).filter((at) => rows.code[at] === code && rows.tier[at] <= 0);
    const some = own.slice(-MOST_COUNTED);
    const apart = (at, other) => (rows.x[at] - rows.x[other]) ** 2 + (rows.y[at] - rows.y[other]) ** 2;
    const near = some.map((at) => some.filter((other) => apart(at, other) < reach).length);
    const at = some[near.indexOf(Math.max(...near))];
    if (at === undefined) continue;
    spots.x.push(rows.x[at]);
    spots.y.push(rows.y[at]);
    spots.name.push(names[code].length > 20 ? `${names[code].slice(0, 19)}…` : names[code]);
  }
  const source = new Bokeh.ColumnDataSource({ data: spots });
  const look = { text_align: "center", text_baseline: "bottom", text_font_size: "13px", y_offset: -6 };
  const ground = { background_fill_alpha: 0.75, padding: 2, border_radius: 4 };
  return plot.text({ field: "x" }, { field: "y" }, { field: "name" }, { source, ...look, ...ground });
}

async function makeMap() {
  const [x, y] = [Float64Array.from(rows.x), Float64Array.from(rows.y)];
  map.points = new Bokeh.ColumnDataSource({ data: { x, y, colour: map.colour, width: map.width } });
  map.ring = new Bokeh.ColumnDataSource({ data: { x: [], y: [] } });
  const plot = (map.plot = Bokeh.Plotting.figure({
    sizing_mode: "stretch_both",
    toolbar_location: null,
    tools: "pan,wheel_zoom,box_select,lasso_select",
    lod_threshold: null,
    min_border: 0,
    x_range: new Bokeh.Range1d({ start: rows.window[0], end: rows.window[1] }),
    y_range: new Bokeh.Range1d({ start: rows.window[2], end: rows.window[3] }),
  }));
  const scatter = (source, look) => plot.scatter({ field: "x" }, { field: "y" }, { source, ...look });
  const drawn = scatter(map.points, {
    fill_color: { field: "colour" },
    line_color: null,
    size: { field: "width" },
    nonselection_fill_color: { field: "colour" },
    nonselection_fill_alpha: 0.25,
  });
  map.names = nameClasses(plot);
  scatter(map.ring, { size: 17, fill_color: null, line_width: 3, line_color: "#000" });
  for (const axis of [...plot.xaxis, ...plot.yaxis]) axis.visible = false;
  paint();
  const scroller = plot.toolbar.tools.find((tool) => tool.type === "WheelZoomTool");
  map.view = await Bokeh.Plotting.show(plot, byId("plot"));
  // Bokeh takes a button held for 0.3 s for a long press, and forgets the drag or click that it begins.
  const gestures = map.view.canvas_view?.ui_event_bus?.ui_gestures?.constructor;
  if (gestures) gestures.press_threshold = 2 ** 31 - 1;
  makeTools();
  fitWindow(rows.window);
  for (const tool of plot.toolbar.tools) if ("renderers" in tool) tool.renderers = [drawn];
  let dragging = false;
  plot.on_event("mousemove", (event) => update({ hovered: dragging ? -1 : nearest(event.sx, event.sy) }));
  plot.on_event("mouseleave", () => update({ hovered: -1 }));
  plot.on_event("tap", (event) => {
    const at = nearest(event.sx, event.sy);
    update({ pinned: at === state.pinned ? -1 : at });
  });
  plot.on_event("selectiongeometry", (event) => {
    if (event.final) update({ selected: map.points.selected.indices.slice() });
  });
  // The wheel scrolls the page until the map has been clicked or has the focus.
  byId("plot").addEventListener("pointerdown", () => {
    dragging = true;
    scroller.active = true;
    byId("plot").focus({ preventScroll: true });
  });
  addEventListener("pointerup", () => (dragging = false));
  byId("plot").addEventListener("focusin", () => (scroller.active = true));
  byId("plot").addEventListener("focusout", () => (scroller.active = false));
  byId("plot").addEventListener("keydown", stepThrough);
}

function restyleMap() {
  styleAxes(map.plot);
  const ring = map.plot.renderers.at(-1);
  ring.glyph.line_color = cssColour("ink");
  map.names.glyph.text_color = cssColour("ink");
  map.names.glyph.background_fill_color = cssColour("surface");
  paint();
}
