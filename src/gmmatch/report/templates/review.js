// Rows to decide about, one at a time, beside what they are compared with; decisions are saved as labels.

const review = report.review;
const DECISIONS = [
  ["right", "Right", "r"],
  ["wrong", "Wrong", "w"],
  ["neither", "Neither", "n"], // the likelier class is wrong too
  ["skip", "Skip", "s"],
];
const KINDS = {
  labels: { score: "Probability that the label is wrong", beside: (at) => `Typical of ${classOf(betterOf(at))}` },
  outliers: { score: "Distance, 0.5 being the most that the class allows", beside: (at) => (report.labelled ? `Typical of ${classOf(rows.code[at])}` : "Typical row") },
  copies: { score: "Likeness", beside: () => "The row to keep" },
};
const reviewed = { tab: 0, places: review.tabs.map(() => 0), decisions: new Map(), saved: false };
const betterOf = (at) => (rows.suggested[at] >= 0 ? rows.suggested[at] : rows.code[at]);
const tabNow = () => review.tabs[reviewed.tab];
const placeNow = () => reviewed.places[reviewed.tab];

// What happens to a row that is called wrong: its label becomes the likelier one, or it has none.
function newLabel(tab, at) {
  return tab.name === "copies" ? -1 : rows.suggested[at];
}

function whatWrongDoes(tab, at) {
  const better = newLabel(tab, at);
  if (!report.labelled) return "";
  return better >= 0
    ? `Wrong: the label becomes ${classOf(better)}. Neither: the row loses its label.`
    : "Wrong: the row loses its label.";
}

// The decisions that differ in what they do.
const decisionsOf = (tab, at) => DECISIONS.filter(([choice]) => choice !== "neither" || newLabel(tab, at) >= 0);

function decide(choice) {
  const tab = tabNow();
  const at = tab.rows[placeNow()];
  if (at === undefined || !decisionsOf(tab, at).some(([offered]) => offered === choice)) return;
  reviewed.saved = false;
  const label = { right: rows.code[at], wrong: newLabel(tab, at), neither: -1 }[choice];
  if (choice === "skip") reviewed.decisions.delete(at);
  else reviewed.decisions.set(at, { choice, label });
  step(1);
}

function step(by) {
  const last = tabNow().rows.length - 1;
  reviewed.places[reviewed.tab] = Math.min(Math.max(placeNow() + by, 0), Math.max(last, 0));
  drawReview();
  byId("review-card").focus({ preventScroll: true }); // the button that was pressed is a new one now
}

function openTab(number) {
  reviewed.tab = (number + review.tabs.length) % review.tabs.length;
  drawReview();
  byId("review-tabs").children[reviewed.tab].focus();
}

function side(at, heading, label, wrong) {
  return element(
    "figure",
    { class: "side-row" },
    element("figcaption", {}, heading),
    at < 0 ? element("p", { class: "hint" }, "There is no trusted row of it.") : preview(at),
    at < 0 ? null : element("div", { class: "name" }, nameOf(at)),
    at < 0 || !report.labelled ? null : element("span", { class: `tag${wrong ? " wrong" : ""}` }, label),
  );
}

function reviewCard(tab) {
  const place = placeNow();
  const [at, beside] = [tab.rows[place], tab.beside[place]];
  const decided = reviewed.decisions.get(at);
  const buttons = decisionsOf(tab, at).map(([choice, words, key]) =>
    element(
      "button",
      {
        type: "button",
        class: `decision by-${choice}`,
        "aria-pressed": String(choice === "skip" ? false : decided?.choice === choice),
        "aria-keyshortcuts": key,
        onclick: () => decide(choice),
      },
      words,
      element("kbd", {}, key.toUpperCase()),
    ),
  );
  return [
    element(
      "div",
      { class: "pair" },
      side(at, `${count(place + 1)} of ${count(tab.rows.length)}`, classOf(rows.code[at]), tab.name === "labels"),
      element("span", { class: "arrow", "aria-hidden": "true" }, tab.name === "copies" ? "=" : "→"),
      side(beside, KINDS[tab.name].beside(at), beside < 0 ? "" : classOf(rows.code[beside]), false),
    ),
    element(
      "div",
      { class: "verdict" },
      element("p", { class: "reason" }, rows.reason[at] || "Nothing more is known of it."),
      element("p", { class: "hint" }, `${KINDS[tab.name].score}: ${tab.score[place].toFixed(2)}`),
      element("div", { class: "decisions", role: "group", "aria-label": "Decision" }, ...buttons),
      element("p", { class: "hint", id: "wrong-does" }, whatWrongDoes(tab, at)),
      element(
        "div",
        { class: "moves" },
        element("button", { type: "button", class: "ghost", onclick: () => step(-1) }, "Previous"),
        element("button", { type: "button", class: "ghost", onclick: () => step(1) }, "Next"),
        element(
          "button",
          {
            type: "button",
            class: "ghost",
            onclick: () => {
              pin(at);
              byId("map").scrollIntoView();
            },
          },
          "Show on the map",
        ),
      ),
    ),
  ];
}

function strip(tab) {
  return tab.rows.map((at, place) => {
    const choice = reviewed.decisions.get(at)?.choice;
    const words = `${place + 1}: ${nameOf(at)}${choice ? `, decided: ${choice}` : ""}`;
    return element(
      "button",
      {
        type: "button",
        class: `chip ${choice === "neither" ? "wrong" : choice || ""}`,
        "aria-label": words,
        "aria-current": place === placeNow() ? "true" : null,
        title: words,
        onclick: () => {
          reviewed.places[reviewed.tab] = place;
          drawReview();
          byId("review-card").focus({ preventScroll: true });
        },
      },
      report.content_kind === "image" ? preview(at) || String(place + 1) : String(place + 1),
    );
  });
}

function drawReview() {
  const tab = tabNow();
  fill(
    byId("review-tabs"),
    ...review.tabs.map(({ title, total }, number) =>
      element(
        "button",
        {
          type: "button",
          role: "tab",
          "aria-selected": String(number === reviewed.tab),
          "aria-controls": "review-panel",
          tabindex: number === reviewed.tab ? 0 : -1,
          onclick: () => openTab(number),
        },
        title,
        element("span", { class: "amount" }, count(total)),
      ),
    ),
  );
  byId("review-about").textContent =
    tab.total > tab.rows.length ? `${tab.about} The first ${count(tab.rows.length)} are listed.` : tab.about;
  fill(
    byId("review-card"),
    ...(tab.rows.length ? reviewCard(tab) : [element("p", { class: "hint" }, "There is none.")]),
  );
  fill(byId("review-strip"), ...strip(tab));
  const amount = reviewed.decisions.size;
  const wrong = [...reviewed.decisions.values()].filter(({ choice }) => choice !== "right").length;
  byId("review-count").textContent = amount
    ? `${plural(amount, "decision", "decisions")}: ${count(wrong)} wrong, ${count(amount - wrong)} right`
    : "No decisions yet";
  byId("review-save").disabled = !amount;
}

// A cell of a CSV file.
const cell = (text) => (/[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

// All labels, with the decisions in place: a file that --labels takes.
function labelFile() {
  const { names, codes, width } = review.labels;
  const bytes = atob(codes);
  const label = (row) => {
    let code = 0;
    for (let byte = width - 1; byte >= 0; byte--) code = code * 256 + bytes.charCodeAt(row * width + byte);
    return code;
  };
  const decided = new Map([...reviewed.decisions].map(([at, found]) => [rows.row[at], { at, ...found }]));
  const lines = ["row,label,decision"];
  for (let row = 0; row < bytes.length / width; row++) {
    const found = decided.get(row);
    let name = names[label(row)] ?? "";
    if (found && found.choice !== "right") name = found.label < 0 ? "" : names[review.labels.listed[found.label]];
    lines.push(`${row},${cell(name)},${found ? found.choice : ""}`);
  }
  return `${lines.join("\r\n")}\r\n`;
}

function saveLabels() {
  const address = URL.createObjectURL(new Blob([labelFile()], { type: "text/csv" }));
  const link = element("a", { href: address, download: "labels.csv" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
  reviewed.saved = true;
  byId("review-saved").textContent = "Saved as labels.csv.";
}

function makeReview() {
  drawReview();
  byId("review-save").addEventListener("click", saveLabels);
  byId("review-tabs").addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    openTab(reviewed.tab + by);
  });
  byId("review").addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const choice = DECISIONS.find(([, , key]) => key === event.key.toLowerCase());
    if (choice) decide(choice[0]); // also from a tab, a button or the strip
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by && byId("review-panel").contains(event.target)) step(by);
    else if (!choice) return;
    event.preventDefault();
  });
  // Decisions live in the page alone until they are saved.
  window.addEventListener("beforeunload", (event) => {
    if (reviewed.decisions.size && !reviewed.saved) event.preventDefault();
  });
}
