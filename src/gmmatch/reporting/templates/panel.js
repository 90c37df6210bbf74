// What is said of a row, the search, and lists of rows beside the map.

const MOST_LISTED = 60;
const MOST_FOUND = 12;
// Parameters that pass over believed rows.
const LEAVES_OUT = ["exclude", "holdout", "duplicates", "match_to", "quality"];

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

// What the chosen budget does to a row: the name of its colour, and words.
function status(at) {
  const pick = `pick ${count(rows.rank[at] + 1)}`;
  if (isKept(at)) return ["kept", `kept, ${pick}`];
  return isLost(at) ? ["lost", `lost here, ${pick}`] : ["dropped", "dropped"];
}

// Why a row was not kept.
function whyDropped(at) {
  if (!report.glance.guard) return `${report.glance.method} picked others; no row was judged before.`;
  if (rows.tier[at] === 1) return "its label is likely wrong; believed rows come first.";
  if (rows.tier[at] > 1) return "it is outside its class; believed rows come first.";
  const aims = report.glance.aims.filter((name) => LEAVES_OUT.includes(name));
  if (aims.length) return `left out by ${aims.join(", ")}, or other rows say more.`;
  const whose = report.labelled ? `the budget of ${classOf(rows.code[at])}` : "the budget";
  return `believed, but ${whose} went to rows that say more.`;
}

function facts(at) {
  const lines = [
    rows.id && ["Row", count(rows.row[at])],
    report.labelled && ["Class", classOf(rows.code[at])],
    ["Distance", number(rows.distance[at])],
    rows.suspicion[at] !== null && ["Suspicion", rows.suspicion[at].toFixed(2)],
    rows.suggested[at] >= 0 && ["Likelier", classOf(rows.suggested[at])],
    rows.rank[at] < 0 && ["Dropped", whyDropped(at)],
    rows.reason[at] && ["Evidence", rows.reason[at]],
  ].filter(Boolean);
  const entries = lines.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]);
  return element("dl", {}, ...entries);
}

function rowCard(at) {
  const [kind, words] = status(at);
  const name = element("div", { class: "name", title: nameOf(at) }, nameOf(at));
  const tags = element("div", { class: "tags" }, element("span", { class: `tag ${kind}` }, words));
  return element("div", { class: "item" }, preview(at), name, tags, facts(at));
}

function rowLine(at) {
  const beside = report.labelled ? classOf(rows.code[at]) : number(rows.distance[at]);
  const shown = [
    dot(`var(--${status(at)[0]})`),
    element("span", { class: "name" }, nameOf(at)),
    element("span", { class: "side" }, beside),
  ];
  const pressed = String(state.pinned === at);
  return element("li", {}, button(shown, () => pin(at), { class: "line", "aria-pressed": pressed }));
}

function pin(at) {
  showRow(at);
  update({ pinned: at, hovered: -1 });
}

function showOnMap(at) {
  pin(at);
  byId("map").scrollIntoView();
}

function drawPinned() {
  const { pinned } = state;
  const help = "Point at a row to see it, click to pin it here. Box and Lasso list the rows inside.";
  const unpin = () => update({ pinned: -1 });
  const heading = () => element("h3", {}, "Pinned row", ghost("Unpin", unpin));
  fill(byId("pinned"), ...(pinned < 0 ? [hint(help)] : [heading(), rowCard(pinned)]));
}

function clearSelected() {
  map.points.selected.indices = [];
  update({ selected: [] });
}

// Names on the map may be shortened; the whole ones are there where labels can be saved by id.
function saveRows(listed) {
  const { ids } = report.review.labels || {};
  const named = (at) => (ids ? cell(ids[rows.row[at]]) : String(rows.row[at]));
  download("rows.csv", [ids ? "id" : "row", ...listed.map(named), ""].join("\r\n"));
}

function drawSelected() {
  const { selected } = state;
  if (!selected.length) return fill(byId("selected"));
  // Kept rows in pick order, then the others as they come.
  const place = (at) => (rows.rank[at] < 0 ? rows.row[at] : rows.rank[at] - report.glance.rows);
  const listed = selected.slice().sort((a, b) => place(a) - place(b));
  const more = selected.length > MOST_LISTED ? `; the first ${MOST_LISTED} are listed` : "";
  const save = ghost("Save", () => saveRows(listed));
  const buttons = element("span", {}, save, " ", ghost("Clear", clearSelected));
  return fill(
    byId("selected"),
    element("h3", {}, `${plural(selected.length, "row", "rows")} inside`, buttons),
    hint(`${count(selected.filter(isKept).length)} kept at this budget${more}`),
    element("ul", {}, ...listed.slice(0, MOST_LISTED).map(rowLine)),
  );
}

function drawFound() {
  const wanted = byId("search").value.trim().toLowerCase();
  if (!wanted) return fill(byId("found"));
  const every = Array.from(rows.row.keys()).reverse();
  const [names, numbers] = [(at) => rows.id?.[at].toLowerCase() ?? "", (at) => String(rows.row[at])];
  const exact = every.filter((at) => names(at) === wanted || numbers(at) === wanted);
  const starts = (at) => names(at).includes(wanted) || (!rows.id && numbers(at).startsWith(wanted));
  const found = [...new Set([...exact, ...every.filter(starts)])];
  const more = found.length > MOST_FOUND ? `; the first ${MOST_FOUND} are listed` : "";
  const sample = report.glance.usable > size ? "; it shows a sample of the rows" : "";
  const words = found.length
    ? `${plural(found.length, "row", "rows")} found${more}`
    : `Nothing on the map is called “${wanted}”${sample}.`;
  return fill(byId("found"), hint(words), element("ul", {}, ...found.slice(0, MOST_FOUND).map(rowLine)));
}
