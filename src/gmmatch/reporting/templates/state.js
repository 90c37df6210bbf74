// The data of the page, what the reader has chosen, and who wants to know.

const report = JSON.parse(byId("data").textContent);
const rows = report.map;
const size = rows.row.length;
const budgets = report.curve.budgets;

const state = {
  budget: budgets.length - 1, // a place in `budgets`
  mode: "kept",
  hovered: -1,
  pinned: -1, // the first pick, once it is known
  selected: [],
  focus: -1, // a class that stands out
};
const listeners = [];

const listen = (keys, listener) => listeners.push([new Set(keys), listener]);

function update(changes) {
  const changed = Object.keys(changes).filter((key) => state[key] !== changes[key]);
  if (!changed.length) return;
  Object.assign(state, changes);
  for (const [keys, listener] of listeners) if (changed.some((key) => keys.has(key))) listener();
}

const budget = () => budgets[state.budget];
// How many times closer to the centre the picks are than random subsets; 0 where that says nothing.
function timesCloser() {
  const ratio = report.curve.random[state.budget] / report.curve.objective[state.budget];
  return Number.isFinite(ratio) && ratio >= 1.05 ? ratio : 0;
}
const isKept = (at) => rows.rank[at] >= 0 && rows.rank[at] < budget();
const isLost = (at) => rows.rank[at] >= budget();
const nameOf = (at) => (rows.id ? rows.id[at] : `row ${count(rows.row[at])}`);
const classOf = (code) => (code < 0 ? "a class that is not listed" : report.classes.names[code]);
const picked = [...rows.row.keys()].filter((at) => rows.rank[at] >= 0);
const pickOrder = picked.sort((a, b) => rows.rank[a] - rows.rank[b]);

state.pinned = pickOrder[0] ?? -1;

// Picks of each class at every budget.
const classCounts = [];
for (const gained of report.classes.steps) {
  const before = classCounts.at(-1);
  classCounts.push(before ? gained.map((value, code) => value + before[code]) : gained);
}
