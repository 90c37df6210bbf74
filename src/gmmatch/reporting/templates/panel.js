// What is said of a row, the search, and lists of rows beside the map.

const MOST_LISTED = 60;
const MOST_FOUND = 12;

function preview(at) {
  const content = report.content[at];
  if (content === undefined) return null;
  if (report.content_kind === "text") return element("p", { class: "text" }, content);
  // Only pictures that the report itself made are shown.
  if (!/^data:image\/(png|jpeg);base64,[A-Za-z0-9+/=]*$/.test(content)) return null;
  return element("img", {
    class: content.startsWith("data:image/png") ? "picture crisp" : "picture",
    src: content,
    alt: `Row ${nameOf(at)}`,
  });
}

function status(at) {
  if (isKept(at)) return element("span", { class: "tag kept" }, `kept, pick ${count(rows.rank[at] + 1)}`);
  if (isLost(at))
    return element("span", { class: "tag lost" }, `lost here, pick ${count(rows.rank[at] + 1)}`);
  return element("span", { class: "tag" }, "dropped");
}

// Why a row was not kept.
function whyDropped(at) {
  if (!report.glance.guard) return `${report.glance.method} picked others; no row was judged before.`;
  if (rows.tier[at] === 1) return "its label is likely wrong; believed rows come first.";
  if (rows.tier[at] > 1) return "it is outside its class; believed rows come first.";
  const whose = report.labelled ? `the budget of ${classOf(rows.code[at])}` : "the budget";
  return `believed, but ${whose} went to rows that say more.`;
}

function facts(at) {
  const lines = [];
  if (rows.id) lines.push(["Row", count(rows.row[at])]);
  if (report.labelled) lines.push(["Class", classOf(rows.code[at])]);
  lines.push(["Distance", number(rows.distance[at])]);
  if (rows.suspicion[at] !== null) lines.push(["Suspicion", rows.suspicion[at].toFixed(2)]);
  if (rows.suggested[at] >= 0) lines.push(["Likelier", classOf(rows.suggested[at])]);
  if (rows.rank[at] < 0) lines.push(["Dropped", whyDropped(at)]);
  if (rows.reason[at]) lines.push(["Evidence", rows.reason[at]]);
  return element(
    "dl",
    {},
    ...lines.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]),
  );
}

function rowCard(at) {
  return element(
    "div",
    { class: "item" },
    preview(at),
    element("div", { class: "name", title: nameOf(at) }, nameOf(at)),
    element("div", { class: "tags" }, status(at)),
    facts(at),
  );
}

function rowLine(at) {
  return element(
    "li",
    {},
    element(
      "button",
      { type: "button", class: "line", "aria-pressed": String(state.pinned === at), onclick: () => pin(at) },
      element("span", {
        class: "dot",
        style: { background: `var(--${isKept(at) ? "kept" : isLost(at) ? "lost" : "dropped"})` },
      }),
      element("span", { class: "name" }, nameOf(at)),
      element(
        "span",
        { class: "side" },
        report.labelled ? classOf(rows.code[at]) : number(rows.distance[at]),
      ),
    ),
  );
}

function pin(at) {
  showRow(at);
  update({ pinned: at, hovered: -1 });
}

// The rows that are nearest on the map.
function neighbours(at, amount) {
  const far = (other) => (rows.x[other] - rows.x[at]) ** 2 + (rows.y[other] - rows.y[at]) ** 2;
  const best = [];
  for (let other = 0; other < size; other++) {
    if (other === at) continue;
    const distance = far(other);
    if (best.length < amount || distance < best[best.length - 1][0]) {
      best.push([distance, other]);
      best.sort((a, b) => a[0] - b[0]);
      best.length = Math.min(best.length, amount);
    }
  }
  return best.map(([, other]) => other);
}

function drawPinned() {
  const { pinned } = state;
  const close = element(
    "button",
    { type: "button", class: "ghost", onclick: () => update({ pinned: -1 }) },
    "Let go",
  );
  fill(
    byId("pinned"),
    pinned < 0
      ? element(
          "p",
          { class: "hint" },
          "Point at a row to see it, click to pin it here. Box and Lasso list the rows inside.",
        )
      : [
          element("h3", {}, "Pinned row", close),
          rowCard(pinned),
          element("h3", { class: "near" }, "Nearest on the map"),
          element("ul", {}, ...neighbours(pinned, 6).map(rowLine)),
        ],
  );
}

function drawSelected() {
  const { selected } = state;
  if (!selected.length) return fill(byId("selected"));
  const kept = selected.filter(isKept).length;
  const listed = selected
    .slice()
    .sort(
      (a, b) =>
        (rows.rank[a] < 0) - (rows.rank[b] < 0) || rows.rank[a] - rows.rank[b] || rows.row[a] - rows.row[b],
    );
  const clear = element(
    "button",
    {
      type: "button",
      class: "ghost",
      onclick: () => {
        map.points.selected.indices = [];
        update({ selected: [] });
      },
    },
    "Clear",
  );
  // Names on the map may be shortened; the whole ones are there where labels can be saved by id.
  const { ids } = report.review.labels || {};
  const named = (at) => (ids ? cell(ids[rows.row[at]]) : String(rows.row[at]));
  const save = element(
    "button",
    {
      type: "button",
      class: "ghost",
      onclick: () => download("rows.csv", [ids ? "id" : "row", ...listed.map(named), ""].join("\r\n")),
    },
    "Save",
  );
  const more = selected.length > MOST_LISTED ? `; the first ${MOST_LISTED} are listed` : "";
  return fill(
    byId("selected"),
    element("h3", {}, `${plural(selected.length, "row", "rows")} inside`, element("span", {}, save, " ", clear)),
    element("p", { class: "hint" }, `${count(kept)} kept at this budget${more}`),
    element("ul", {}, ...listed.slice(0, MOST_LISTED).map(rowLine)),
  );
}

function drawFound() {
  const wanted = byId("search").value.trim().toLowerCase();
  if (!wanted) return fill(byId("found"));
  const exact = [];
  const partly = [];
  for (let at = size - 1; at >= 0; at--) {
    const name = rows.id ? rows.id[at].toLowerCase() : "";
    const row = String(rows.row[at]);
    if (name === wanted || row === wanted) exact.push(at);
    else if (name.includes(wanted) || (!rows.id && row.startsWith(wanted))) partly.push(at);
  }
  const found = [...exact, ...partly];
  const more = found.length > MOST_FOUND ? `; the first ${MOST_FOUND} are listed` : "";
  const sample = report.glance.usable > size ? "; it shows a sample of the rows" : "";
  const words = found.length
    ? `${plural(found.length, "row", "rows")} found${more}`
    : `Nothing on the map is called “${wanted}”${sample}.`;
  return fill(
    byId("found"),
    element("p", { class: "hint" }, words),
    element("ul", {}, ...found.slice(0, MOST_FOUND).map(rowLine)),
  );
}
