// The map: points on a canvas, coloured by what the reader asks for.

const MODES = [
  ["kept", "kept"],
  ["class", "class"],
  ["distance", "distance"],
  ["suspicion", "suspicion"],
]
  .filter(([mode]) => mode !== "class" || report.labelled)
  .filter(([mode]) => mode !== "suspicion" || rows.suspicion.some((value) => value !== null));
const FAR = 14; // pixels from a point at which it is no longer meant

const map = {
  plot: null,
  view: null,
  points: null,
  ring: null,
  colour: new Uint32Array(size),
  width: new Float32Array(size),
};

function quantile(values, share) {
  const sorted = Float64Array.from(values.filter((value) => value !== null)).sort();
  return sorted.length ? sorted[Math.min(Math.floor(share * sorted.length), sorted.length - 1)] : 0;
}
const distanceRange = [quantile(rows.distance, 0.02), quantile(rows.distance, 0.98)];

function baseColour(at, theme) {
  if (state.mode === "class") return classColour(rows.code[at]);
  if (state.mode === "distance") {
    const [low, high] = distanceRange;
    return rampColour(rampOf("distance"), high > low ? (rows.distance[at] - low) / (high - low) : 0.5);
  }
  if (state.mode === "suspicion")
    return rows.suspicion[at] === null ? theme.dropped : rampColour(rampOf("suspicion"), rows.suspicion[at]);
  return isKept(at) ? theme.kept : isLost(at) ? theme.lost : theme.dropped;
}

function paint() {
  const theme = Object.fromEntries(
    ["kept", "lost", "dropped"].map((name) => [name, channels(cssColour(name))]),
  );
  const crowd = size > 6000 ? 0.34 : size > 1500 ? 0.45 : 0.6;
  const scale = size > 6000 ? 0.8 : 1;
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
  for (const axis of [...plot.xaxis, ...plot.yaxis]) {
    Object.assign(axis, {
      axis_line_color: null,
      major_tick_line_color: null,
      minor_tick_line_color: null,
      major_label_text_color: ink,
      axis_label_text_color: ink,
      axis_label_text_font_style: "normal",
      major_label_text_font_size: "12px",
      axis_label_text_font_size: "13px",
      major_label_text_font: "system-ui, sans-serif",
      axis_label_text_font: "system-ui, sans-serif",
    });
  }
  for (const grid of [...plot.xgrid, ...plot.ygrid]) grid.grid_line_color = line;
}

// One unit is as long upwards as sideways, whatever the shape of the window.
function fitWindow([left, right, bottom, top]) {
  const { width, height } = map.view.frame.bbox;
  const unit = Math.max((right - left) / width, (top - bottom) / height);
  const [x, y] = [(left + right) / 2, (bottom + top) / 2];
  map.plot.x_range.setv({ start: x - (unit * width) / 2, end: x + (unit * width) / 2 });
  map.plot.y_range.setv({ start: y - (unit * height) / 2, end: y + (unit * height) / 2 });
}

function zoom(factor) {
  for (const range of [map.plot.x_range, map.plot.y_range]) {
    const [middle, half] = [(range.start + range.end) / 2, ((range.end - range.start) / 2) * factor];
    range.setv({ start: middle - half, end: middle + half });
  }
}

function showRow(at) {
  const [x, y] = [map.plot.x_range, map.plot.y_range];
  const inside = rows.x[at] > x.start && rows.x[at] < x.end && rows.y[at] > y.start && rows.y[at] < y.end;
  if (!inside) {
    for (const [range, value] of [
      [x, rows.x[at]],
      [y, rows.y[at]],
    ]) {
      const half = (range.end - range.start) / 2;
      range.setv({ start: value - half, end: value + half });
    }
  }
}

function nearest(sx, sy) {
  const frame = map.view.frame;
  const [toX, toY] = [frame.x_scale, frame.y_scale];
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

function placeOf(at) {
  const frame = map.view.frame;
  return [frame.x_scale.compute(rows.x[at]), frame.y_scale.compute(rows.y[at])];
}

function showHover() {
  const card = byId("hover");
  card.hidden = state.hovered < 0 || state.hovered === state.pinned;
  if (card.hidden) return;
  fill(card, rowCard(state.hovered));
  const [x, y] = placeOf(state.hovered);
  const [wide, high] = [byId("plot").clientWidth, byId("plot").clientHeight];
  const left = x + 18 + card.offsetWidth < wide ? x + 18 : Math.max(x - 18 - card.offsetWidth, 0);
  Object.assign(card.style, {
    left: `${left}px`,
    top: `${Math.max(Math.min(y - card.offsetHeight / 3, high - card.offsetHeight), 0)}px`,
  });
}

function drawLegend() {
  const legend = byId("legend");
  const key = (colour, words, amount) =>
    element(
      "span",
      { class: "key" },
      element("span", { class: "dot", style: { background: colour } }),
      words,
      amount === undefined ? null : element("b", {}, count(amount)),
    );
  if (state.mode === "kept") {
    let [kept, lost] = [0, 0];
    for (let at = 0; at < size; at++) [kept, lost] = [kept + isKept(at), lost + isLost(at)];
    fill(
      legend,
      key("var(--kept)", "kept", kept),
      lost ? key("var(--lost)", "lost at this budget", lost) : null,
      key("var(--dropped)", "dropped", size - kept - lost),
      element("span", {}, "on the map"),
    );
  } else if (state.mode === "class") {
    const order = report.classes.sizes
      .map((_, code) => code)
      .sort((a, b) => report.classes.sizes[b] - report.classes.sizes[a] || a - b)
      .slice(0, 14)
      .sort((a, b) => a - b);
    const buttons = order.map((code) =>
      element(
        "button",
        {
          type: "button",
          class: "key",
          title: classOf(code),
          "aria-pressed": String(state.focus === code),
          onclick: () => update({ focus: state.focus === code ? -1 : code }),
        },
        element("span", { class: "dot", style: { background: cssRgb(classColour(code)) } }),
        element("span", {}, classOf(code)),
      ),
    );
    const others = report.classes.names.length - order.length;
    fill(legend, ...buttons, others ? element("span", {}, `and ${plural(others, "other", "others")}`) : null);
  } else {
    const ramp = element("span", {
      class: "ramp",
      style: { background: `linear-gradient(to right, ${rampOf(state.mode).join(", ")})` },
    });
    const ends = state.mode === "distance" ? distanceRange.map(number) : ["0 believed", "1 hard to believe"];
    fill(
      legend,
      element("span", {}, ends[0]),
      ramp,
      element("span", {}, ends[1]),
      element(
        "span",
        {},
        state.mode === "distance"
          ? "distance to the centre of the class; kept rows are larger"
          : "kept rows are larger",
      ),
    );
  }
}

function makeTools(tools) {
  const drag = Object.fromEntries(
    ["PanTool", "BoxSelectTool", "LassoSelectTool"].map((type) => [
      type,
      map.plot.toolbar.tools.find((tool) => tool.type === type),
    ]),
  );
  const buttons = [
    ["Move", "PanTool"],
    ["Box", "BoxSelectTool"],
    ["Lasso", "LassoSelectTool"],
  ].map(([words, type]) =>
    element(
      "button",
      {
        type: "button",
        "aria-pressed": "false",
        "data-tool": type,
        onclick: () => choose(drag[type].active ? null : type),
      },
      words,
    ),
  );
  function choose(wanted) {
    for (const [type, tool] of Object.entries(drag)) tool.active = type === wanted;
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.tool === wanted));
  }
  fill(
    tools,
    ...buttons,
    element("button", { type: "button", "aria-label": "Zoom in", onclick: () => zoom(0.7) }, "+"),
    element("button", { type: "button", "aria-label": "Zoom out", onclick: () => zoom(1 / 0.7) }, "−"),
    element("button", { type: "button", onclick: () => fitWindow(rows.window) }, "Reset"),
  );
  // A finger that drags across the map should scroll the page until a tool is chosen.
  choose(matchMedia("(pointer: coarse)").matches ? null : "PanTool");
}

function makeModes() {
  const choices = MODES.map(([mode, words]) =>
    element(
      "label",
      {},
      element("input", {
        type: "radio",
        name: "mode",
        value: mode,
        checked: mode === state.mode,
        onchange: () => update({ mode }),
      }),
      words,
    ),
  );
  byId("modes").append(...choices);
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

async function makeMap() {
  map.points = new Bokeh.ColumnDataSource({
    data: {
      x: Float64Array.from(rows.x),
      y: Float64Array.from(rows.y),
      colour: map.colour,
      width: map.width,
    },
  });
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
  const look = { fill_color: { field: "colour" }, line_color: null, size: { field: "width" } };
  const drawn = plot.scatter(
    { field: "x" },
    { field: "y" },
    {
      source: map.points,
      ...look,
      nonselection_fill_color: { field: "colour" },
      nonselection_fill_alpha: 0.25,
    },
  );
  plot.scatter(
    { field: "x" },
    { field: "y" },
    {
      source: map.ring,
      size: 17,
      fill_color: null,
      line_width: 3,
      line_color: "#000",
    },
  );
  for (const axis of [...plot.xaxis, ...plot.yaxis]) axis.visible = false;
  paint();
  const scroller = plot.toolbar.tools.find((tool) => tool.type === "WheelZoomTool");
  map.view = await Bokeh.Plotting.show(plot, byId("plot"));
  // Bokeh takes a button held for 0.3 s for a long press, and forgets the drag or click that it begins.
  const gestures = map.view.canvas_view?.ui_event_bus?.ui_gestures?.constructor;
  if (gestures) gestures.press_threshold = 2 ** 31 - 1;
  makeTools(byId("tools"));
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
  addEventListener("pointerup", () => {
    dragging = false;
  });
  byId("plot").addEventListener("focusin", () => {
    scroller.active = true;
  });
  byId("plot").addEventListener("focusout", () => {
    scroller.active = false;
  });
  byId("plot").addEventListener("keydown", stepThrough);
}

function restyleMap() {
  styleAxes(map.plot);
  const [, ring] = map.plot.renderers;
  ring.glyph.line_color = cssColour("ink");
  paint();
}
