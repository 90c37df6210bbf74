// The table of classes: sorted, searched, a page at a time.

const PER_PAGE = 20;
const table = { sort: "rows", descending: true, page: 0 };
const suspectShare = (code) =>
  report.classes.judged[code] ? report.classes.suspects[code] / report.classes.judged[code] : -1;
const COLUMNS = [
  ["class", "Class", (code) => report.classes.names[code]],
  ["rows", "Rows", (code) => report.classes.sizes[code]],
  ["kept", "Kept", (code) => classCounts(state.budget)[code]],
  [
    "share",
    "Share kept",
    (code) => classCounts(state.budget)[code] / Math.max(report.classes.sizes[code], 1),
  ],
  ["suspects", "Suspects", suspectShare],
  ...(report.classes.wrong ? [["wrong", "Wrong labels", (code) => report.classes.wrong[code]]] : []),
  ["distance", "Median distance", (code) => report.classes.median[code]],
];

function classOrder() {
  const wanted = byId("class-search").value.trim().toLowerCase();
  const [, , value] = COLUMNS.find(([name]) => name === table.sort);
  const collator = new Intl.Collator("en", { numeric: true });
  const sign = table.descending ? -1 : 1;
  return report.classes.names
    .map((_, code) => code)
    .filter((code) => !wanted || report.classes.names[code].toLowerCase().includes(wanted))
    .sort((a, b) => {
      const [first, second] = [value(a), value(b)];
      return sign * (typeof first === "string" ? collator.compare(first, second) : first - second) || a - b;
    });
}

function drawHead() {
  fill(
    byId("class-head"),
    ...COLUMNS.map(([name, words]) =>
      element(
        "th",
        {
          scope: "col",
          "aria-sort": table.sort !== name ? "none" : table.descending ? "descending" : "ascending",
        },
        element("button", { type: "button", "data-sort": name, onclick: () => sortBy(name) }, words),
      ),
    ),
    element("th", { scope: "col" }, "Distances: kept of all"),
  );
}

function sortBy(name) {
  const again = table.sort === name;
  Object.assign(table, { sort: name, descending: again ? !table.descending : name !== "class", page: 0 });
  drawHead();
  drawClasses();
  byId("class-head").querySelector(`[data-sort="${name}"]`).focus();
}

// Kept rows in front of all rows, by distance, the tallest bar of the class as high as the picture.
function histogram(code, stretched) {
  const [all, kept] = [report.classes.histogram[code], report.classes.kept_histogram[code]];
  const [wide, high, tallest] = [9, 30, Math.max(...all, 1)];
  const { edges } = report.classes;
  const bars = all.flatMap((value, bin) =>
    [
      [value, "var(--dropped)", 0.55],
      [kept[bin], "var(--kept)", 1],
    ]
      .filter(([amount]) => amount)
      .map(([amount, fillColour, opacity]) => {
        const tall = Math.max((amount / tallest) * high, 1);
        return element("rect", {
          x: bin * wide,
          y: high - tall,
          width: wide - 1.5,
          height: tall,
          rx: 1,
          fill: fillColour,
          opacity,
        });
      }),
  );
  const label = `Distances from ${number(edges[0])} to ${number(edges[edges.length - 1])}; median ${number(report.classes.median[code])}`;
  return element(
    "svg",
    {
      class: "bars",
      width: wide * all.length,
      height: high,
      viewBox: `0 0 ${wide * all.length} ${high}`,
      preserveAspectRatio: stretched ? "none" : null,
      role: "img",
      "aria-label": label,
    },
    ...bars,
  );
}

function shareBar(share, kind) {
  return element(
    "span",
    { class: `share ${kind}`, "aria-hidden": "true" },
    element("i", { style: { width: `${100 * Math.min(share, 1)}%` } }),
  );
}

function drawClasses() {
  const order = classOrder();
  const pages = Math.max(Math.ceil(order.length / PER_PAGE), 1);
  table.page = Math.min(table.page, pages - 1);
  const counts = classCounts(state.budget);
  const { names, sizes, median, suspects, judged } = report.classes;
  fill(
    byId("class-body"),
    ...order.slice(table.page * PER_PAGE, (table.page + 1) * PER_PAGE).map((code) =>
      element(
        "tr",
        {},
        element(
          "td",
          {},
          element(
            "button",
            {
              type: "button",
              class: "name",
              title: `Show ${names[code]} on the map`,
              onclick: () => {
                update({ mode: "class", focus: code });
                byId("map").scrollIntoView();
              },
            },
            names[code],
          ),
        ),
        element("td", {}, count(sizes[code])),
        element("td", {}, count(counts[code])),
        element(
          "td",
          {},
          percent(counts[code] / Math.max(sizes[code], 1)),
          shareBar(counts[code] / Math.max(sizes[code], 1), ""),
        ),
        element(
          "td",
          {},
          judged[code] ? percent(suspects[code] / judged[code]) : "–",
          shareBar(Math.max(suspectShare(code), 0), "wrong"),
        ),
        report.classes.wrong ? element("td", {}, percent(report.classes.wrong[code])) : null,
        element("td", {}, number(median[code])),
        element("td", {}, histogram(code)),
      ),
    ),
  );
  const turn = (words, to, possible) =>
    element(
      "button",
      {
        type: "button",
        disabled: !possible,
        onclick: () => {
          table.page = to;
          drawClasses();
        },
      },
      words,
    );
  const left = report.classes.left_out
    ? `; the ${plural(report.classes.left_out, "smallest class is", "smallest classes are")} left out`
    : "";
  fill(
    byId("class-pages"),
    ...(order.length > PER_PAGE || left
      ? [
          element(
            "span",
            {},
            `${plural(order.length, "class", "classes")}, page ${table.page + 1} of ${pages}${left}`,
          ),
          turn("Previous", table.page - 1, table.page > 0),
          turn("Next", table.page + 1, table.page < pages - 1),
        ]
      : []),
  );
}
