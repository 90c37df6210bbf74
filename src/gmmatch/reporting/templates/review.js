// Rows to decide about, one at a time, beside what they are compared with; decisions are saved as labels.

const review = report.review;
const DECISIONS = [
  ["right", "Right", "r"],
  ["wrong", "Wrong", "w"],
  ["neither", "Neither", "n"], // the likelier class is wrong too
  ["skip", "Skip", "s"],
];
const STRIP = 60; // chips of a page
const STORE = `gmmatch-review-${report.glance.fingerprint || report.title}`;
const KINDS = {
  labels: {
    score: "Probability that the label is wrong",
    beside: (at) => `Typical of ${classOf(betterOf(at))}`,
  },
  outliers: {
    score: `Distance, 0.5 being the most that ${report.labelled ? "the class" : "the data"} allows`,
    beside: (at) => (report.labelled ? `Typical of ${classOf(rows.code[at])}` : "Typical row"),
  },
  duplicates: { score: "Likeness", beside: () => "The row to keep" },
};
const places = review.tabs.map(() => 0); // the row of each tab that is looked at
const reviewed = { tab: 0, decisions: new Map(), skipped: new Set(), saved: false, stored: true };
const betterOf = (at) => (rows.suggested[at] >= 0 ? rows.suggested[at] : rows.code[at]);
const tabNow = () => review.tabs[reviewed.tab];
const placeNow = () => places[reviewed.tab];
// What happens to a row that is called wrong: its label becomes the likelier one, or it has none.
const newLabel = (tab, at) => (tab.name === "duplicates" ? -1 : rows.suggested[at]);
// The decisions that differ in what they do.
const decisionsOf = (tab, at) => DECISIONS.filter(([choice]) => choice !== "neither" || newLabel(tab, at) >= 0);

function decide(choice, chosen = -1) {
  const tab = tabNow();
  const at = tab.rows[placeNow()];
  const offered = choice === "other" ? chosen >= 0 : decisionsOf(tab, at).some(([name]) => name === choice);
  if (at === undefined || !offered) return;
  const label = { right: rows.code[at], wrong: newLabel(tab, at), neither: -1, other: chosen }[choice];
  if (choice === "skip") reviewed.decisions.delete(at);
  else reviewed.decisions.set(at, { choice, label });
  reviewed.skipped[choice === "skip" ? "add" : "delete"](at);
  keepDecisions();
  step(1);
}

// Decisions are kept in the browser, by row number, for pages about the same data; a browser may refuse.
function keepDecisions() {
  reviewed.saved = false;
  const kept = [...reviewed.decisions].map(([at, { choice, label }]) => [rows.row[at], choice, label]);
  kept.push(...[...reviewed.skipped].map((at) => [rows.row[at], "skip", -1]));
  try {
    if (kept.length) localStorage.setItem(STORE, JSON.stringify(kept));
    else localStorage.removeItem(STORE);
    reviewed.stored = true;
  } catch {
    reviewed.stored = false;
  }
}

function recallDecisions() {
  let kept = [];
  try {
    kept = JSON.parse(localStorage.getItem(STORE) || "[]");
  } catch {
    reviewed.stored = false;
    byId("review-kept").textContent = "This browser keeps no decisions: save them before you leave.";
  }
  const onMap = new Map(rows.row.map((row, at) => [row, at]));
  for (const [row, choice, label] of Array.isArray(kept) ? kept : []) {
    const fits = Number.isInteger(label) && label >= -1 && label < report.classes.names.length;
    const known = choice === "other" || DECISIONS.some(([name]) => name === choice);
    if (!onMap.has(row) || !known || !fits) continue;
    if (choice === "skip") reviewed.skipped.add(onMap.get(row));
    else reviewed.decisions.set(onMap.get(row), { choice, label });
  }
}

// Accept the suggestion for every undecided row of this tab that is at least so likely to be wrong.
function acceptAbove(least) {
  const tab = tabNow();
  tab.rows.forEach((at, place) => {
    const label = newLabel(tab, at);
    if (tab.score[place] >= least && label >= 0 && !reviewed.decisions.has(at))
      reviewed.decisions.set(at, { choice: "wrong", label });
  });
  keepDecisions();
  drawReview();
}

// Any class, made once: there may be thousands.
const classChoice = element(
  "select",
  { id: "review-class", onchange: (event) => decide("other", Number(event.target.value)) },
  ...["choose …", ...report.classes.names].map((name, at) => element("option", { value: at - 1 }, name)),
);

function goTo(place) {
  const last = Math.max(tabNow().rows.length - 1, 0);
  places[reviewed.tab] = Math.min(Math.max(place, 0), last);
  drawReview();
  byId("review-card").focus({ preventScroll: true }); // the button that was pressed is a new one now
}

const step = (by) => goTo(placeNow() + by);

function openTab(number) {
  reviewed.tab = (number + review.tabs.length) % review.tabs.length;
  drawReview();
  byId("review-tabs").children[reviewed.tab].focus();
}

function side(at, heading, wrong) {
  const shown = [
    preview(at),
    element("div", { class: "name" }, nameOf(at)),
    report.labelled && element("span", { class: `tag${wrong ? " wrong" : ""}` }, classOf(rows.code[at])),
  ];
  const content = at < 0 ? [hint("There is no trusted row of it.")] : shown;
  return element("figure", { class: "side-row" }, element("figcaption", {}, heading), ...content);
}

function reviewCard(tab) {
  const place = placeNow();
  const [at, beside] = [tab.rows[place], tab.beside[place]];
  const [decided, better] = [reviewed.decisions.get(at)?.choice, newLabel(tab, at)];
  const look = { class: "any-class", for: "review-class" };
  const anyClass = element("label", look, "Another class", classChoice, element("kbd", {}, "C"));
  const loses = "the row loses its label.";
  const wrongDoes = `Wrong: ${better < 0 ? loses : `the label becomes ${classOf(better)}. Neither: ${loses}`}`;
  const buttons = decisionsOf(tab, at).map(([choice, words, key]) =>
    button([words, element("kbd", {}, key.toUpperCase())], () => decide(choice), {
      class: `decision by-${choice}`,
      "aria-pressed": String(choice !== "skip" && decided === choice),
      "aria-keyshortcuts": key,
    }),
  );
  const moves = [
    ghost("Previous", () => step(-1)),
    ghost("Next", () => step(1)),
    ghost("Show on the map", () => showOnMap(at)),
  ];
  return [
    element(
      "div",
      { class: "pair" },
      side(at, `${count(place + 1)} of ${count(tab.rows.length)}`, tab.name === "labels"),
      element("span", { class: "arrow", "aria-hidden": "true" }, tab.name === "duplicates" ? "=" : "→"),
      side(beside, KINDS[tab.name].beside(at), false),
    ),
    element(
      "div",
      { class: "verdict" },
      element("p", { class: "reason" }, rows.reason[at] || "Nothing more is known of it."),
      hint(`${KINDS[tab.name].score}: ${tab.score[place].toFixed(2)}`),
      element("div", { class: "decisions", role: "group", "aria-label": "Decision" }, ...buttons),
      report.labelled && tab.name !== "duplicates" && anyClass,
      hint(report.labelled ? wrongDoes : "", { id: "wrong-does" }),
      element("div", { class: "moves" }, ...moves),
    ),
  ];
}

function chips(tab, first) {
  return tab.rows.slice(first, first + STRIP).map((at, offset) => {
    const place = first + offset;
    const choice = reviewed.decisions.get(at)?.choice;
    const words = `${place + 1}: ${nameOf(at)}${choice ? `, decided: ${choice}` : ""}`;
    const shown = (report.content_kind === "image" && preview(at)) || String(place + 1);
    return button(shown, () => goTo(place), {
      class: `chip ${choice === "neither" || choice === "other" ? "wrong" : choice || ""}`,
      "aria-label": words,
      "aria-current": place === placeNow() ? "true" : null,
      title: words,
    });
  });
}

function drawReview() {
  const tab = tabNow();
  classChoice.value = "-1";
  const tabs = review.tabs.map(({ title, total }, number) =>
    button([title, element("span", { class: "amount" }, count(total))], () => openTab(number), {
      role: "tab",
      "aria-selected": String(number === reviewed.tab),
      "aria-controls": "review-panel",
      tabindex: number === reviewed.tab ? 0 : -1,
    }),
  );
  fill(byId("review-tabs"), ...tabs);
  const more = ` The first ${count(tab.rows.length)} are listed; --suspects writes all of them.`;
  byId("review-about").textContent = tab.about + (tab.total > tab.rows.length ? more : "");
  fill(byId("review-card"), ...(tab.rows.length ? reviewCard(tab) : [hint("There is none.")]));
  const [page, pages] = [Math.floor(placeNow() / STRIP), Math.ceil(tab.rows.length / STRIP)];
  fill(byId("review-strip"), ...chips(tab, page * STRIP));
  const words = `page ${count(page + 1)} of ${count(pages)}`;
  const turn = (number) => goTo(number * STRIP);
  fill(byId("review-pages"), ...(pages > 1 ? pager(words, page, pages, turn) : []));
  byId("review-accept").hidden = tab.name !== "labels" || !tab.rows.length || !review.labels;
  const amount = reviewed.decisions.size;
  const wrong = [...reviewed.decisions.values()].filter(({ choice }) => choice !== "right").length;
  byId("review-count").textContent = amount
    ? `${plural(amount, "decision", "decisions")}: ${count(wrong)} wrong, ${count(amount - wrong)} right`
    : "No decisions yet";
  byId("review-save").disabled = !amount;
  byId("review-forget").hidden = !amount;
}

// All labels, with the decisions in place: a file that --labels takes.
function labelFile() {
  const { names, codes, listed, ids } = review.labels;
  const decided = new Map([...reviewed.decisions].map(([at, found]) => [rows.row[at], found]));
  const lines = codes.map((code, row) => {
    const { choice = "right", label } = decided.get(row) ?? {};
    const name = names[choice === "right" ? code : listed[label]] ?? "";
    return `${ids ? cell(ids[row]) : row},${cell(name)},${decided.get(row)?.choice ?? ""}\r\n`;
  });
  return `${ids ? "id" : "row"},label,decision\r\n${lines.join("")}`;
}

// Without labels, or with too many of them, the rows that were called wrong are saved.
function saveDecisions() {
  const wrong = [...reviewed.decisions].filter(([, { choice }]) => choice !== "right").map(([at]) => at);
  if (review.labels) download("labels.csv", labelFile());
  else saveRows(wrong);
  reviewed.saved = true;
  byId("review-saved").textContent = `Saved as ${review.labels ? "labels" : "rows"}.csv.`;
}

function forgetAll() {
  const lost = plural(reviewed.decisions.size, "decision", "decisions");
  if (!reviewed.saved && !confirm(`Forget ${lost} that you have not saved?`)) return;
  reviewed.decisions.clear();
  reviewed.skipped.clear();
  keepDecisions();
  drawReview();
}

function makeReview() {
  recallDecisions();
  const open = (at) => !reviewed.decisions.has(at) && !reviewed.skipped.has(at);
  review.tabs.forEach((tab, number) => { // on with the first row that is neither decided nor skipped
    places[number] = Math.max(tab.rows.findIndex(open), 0);
  });
  drawReview();
  byId("accept").addEventListener("click", () => acceptAbove(Number(byId("accept-above").value)));
  byId("review-forget").addEventListener("click", forgetAll);
  byId("review-save").addEventListener("click", saveDecisions);
  byId("review-tabs").addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    openTab(reviewed.tab + by);
  });
  byId("review").addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("select, input")) return; // letters and arrows belong to them
    if (event.key.toLowerCase() === "c" && byId("review-class")) {
      byId("review-class").focus();
      event.preventDefault();
      return;
    }
    const choice = DECISIONS.find(([, , key]) => key === event.key.toLowerCase());
    if (choice) decide(choice[0]); // also from a tab, a button or the strip
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by && byId("review-panel").contains(event.target)) step(by);
    else if (!choice) return;
    event.preventDefault();
  });
  // Where the browser keeps nothing, decisions live in the page alone until they are saved.
  window.addEventListener("beforeunload", (event) => {
    if (reviewed.decisions.size && !reviewed.saved && !reviewed.stored) event.preventDefault();
  });
}
